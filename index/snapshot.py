"""Snapshot files: named arrays and a little JSON in one checksummed file, opened by mapping.

A snapshot is written once, aside, and appears under its name by an atomic rename; it is never
changed afterwards. So any number of processes may map the same file and share its pages, and a
crash while writing leaves the older file untouched.

Layout   magic 8 | format version uint32 | zero uint32 | header length uint64 | sha256 of header 32
         header: JSON {"meta": ..., "arrays": [{name, dtype, shape, offset, sha256}, ...]}
         arrays, little-endian and in C order, each starting at a multiple of 64 bytes

Offsets count from the start of the file. Opening costs one read of the header whatever the size
of the arrays; checking the arrays reads every byte of them.
"""

from __future__ import annotations

import hashlib
import json
import mmap
import os
import struct
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from index.cache_lines import LINE_BYTES

MAGIC = b"HERALDIX"
FORMAT_VERSION = 5
ALIGNMENT = LINE_BYTES
"""One cache line; also enough for any vector load."""
HEADER_BYTES_MAX = 1 << 26

_PREFIX = struct.Struct("<8sIIQ32s")
_KINDS = frozenset("biuf")

Arrays = dict[str, NDArray[Any]]


class SnapshotError(ValueError):
    """A snapshot file that cannot be used: which file, which part of it, and what to do."""

    def __init__(self, path: Path, part: str, problem: str) -> None:
        super().__init__(
            f"snapshot {path}: {part}: {problem}; delete the file, it is rebuilt from the store"
        )
        self.path = path
        self.part = part
        self.problem = problem


def write_snapshot(
    path: Path | str, meta: Mapping[str, object], arrays: Mapping[str, NDArray[Any]]
) -> int:
    """Write `meta` (JSON values) and `arrays` to `path`, atomically; returns the bytes of the file.

    The arrays must hold numbers or booleans. Readers see the former file or the whole new one.
    """
    target = Path(path)
    stored = {name: _stored(name, array) for name, array in arrays.items()}
    header = _header(meta, stored)
    descriptor, partial_name = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
    try:
        with os.fdopen(descriptor, "wb") as file:
            _write_parts(file, header, stored)
            size = file.tell()
            file.flush()
            os.fsync(file.fileno())
        os.chmod(partial_name, 0o644)
        os.replace(partial_name, target)
    except BaseException:
        Path(partial_name).unlink(missing_ok=True)
        raise
    sync_folder(target.parent)
    return size


def open_snapshot(path: Path | str, verify: bool = True) -> tuple[dict[str, Any], Arrays]:
    """The `meta` and the arrays of a snapshot, mapped from the file and not parsed.

    The mapping is private: processes share its pages, and what one writes to an array reaches
    neither the others nor the file. A read-only one would make numba compile every kernel twice.

    The header is always checked. `verify` also checks every array against its sha256, which reads
    the whole file; leave it out where the file was checked before.
    """
    target = Path(path)
    with target.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        header = _read_header(target, file, size)
        mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
    arrays = {}
    for entry in header["arrays"]:
        array = _mapped_array(target, entry, mapped, size)
        if verify and hashlib.sha256(_bytes_of(array)).hexdigest() != entry["sha256"]:
            raise SnapshotError(target, f"array {entry['name']}", "its checksum differs")
        arrays[entry["name"]] = array
    return header["meta"], arrays


def _stored(name: str, array: NDArray[Any]) -> NDArray[Any]:
    if array.dtype.kind not in _KINDS:
        raise TypeError(f"array {name}: {array.dtype} cannot be stored, only numbers and booleans")
    return np.asarray(array, dtype=array.dtype.newbyteorder("<"), order="C")


def _header(meta: Mapping[str, object], arrays: Mapping[str, NDArray[Any]]) -> bytes:
    """The header's JSON; its own length decides the first offset, so offsets are of fixed width."""
    entries = [
        {
            "name": name,
            "dtype": array.dtype.str,
            "shape": list(array.shape),
            "offset": " " * 20,
            "sha256": hashlib.sha256(_bytes_of(array)).hexdigest(),
        }
        for name, array in arrays.items()
    ]
    blank = json.dumps({"meta": dict(meta), "arrays": entries}, ensure_ascii=False)
    offset = _aligned(_PREFIX.size + len(blank.encode()))
    for entry, array in zip(entries, arrays.values(), strict=True):
        entry["offset"] = f"{offset:20d}"
        offset = _aligned(offset + array.nbytes)
    return json.dumps({"meta": dict(meta), "arrays": entries}, ensure_ascii=False).encode()


def _write_parts(file: BinaryIO, header: bytes, arrays: Mapping[str, NDArray[Any]]) -> None:
    digest = hashlib.sha256(header).digest()
    file.write(_PREFIX.pack(MAGIC, FORMAT_VERSION, 0, len(header), digest))
    file.write(header)
    for array in arrays.values():
        file.write(bytes(_aligned(file.tell()) - file.tell()))
        file.write(_bytes_of(array))


def _read_header(path: Path, file: BinaryIO, size: int) -> dict[str, Any]:
    prefix = file.read(_PREFIX.size)
    if len(prefix) < _PREFIX.size:
        raise SnapshotError(path, "header", f"the file ends after {size} bytes")
    magic, version, _, length, digest = _PREFIX.unpack(prefix)
    if magic != MAGIC:
        raise SnapshotError(path, "header", "this is not a snapshot file")
    if version != FORMAT_VERSION:
        raise SnapshotError(path, "header", f"format {version}, but only {FORMAT_VERSION} is known")
    if length > min(HEADER_BYTES_MAX, size - _PREFIX.size):
        raise SnapshotError(path, "header", f"the file ends after {size} bytes")
    text = file.read(length)
    if hashlib.sha256(text).digest() != digest:
        raise SnapshotError(path, "header", "its checksum differs")
    header: dict[str, Any] = json.loads(text)
    return header


def _mapped_array(path: Path, entry: dict[str, Any], mapped: mmap.mmap, size: int) -> NDArray[Any]:
    dtype = np.dtype(entry["dtype"])
    shape = tuple(entry["shape"])
    offset = int(entry["offset"])
    count = int(np.prod(shape, dtype=np.int64))
    if offset + count * dtype.itemsize > size:
        raise SnapshotError(path, f"array {entry['name']}", f"the file ends after {size} bytes")
    if count == 0:
        return np.zeros(shape, dtype)
    return np.frombuffer(mapped, dtype, count, offset).reshape(shape)


def _bytes_of(array: NDArray[Any]) -> memoryview | bytes:
    return array.reshape(-1).view(np.uint8).data if array.size else b""


def _aligned(offset: int) -> int:
    return -(-offset // ALIGNMENT) * ALIGNMENT


def sync_folder(folder: Path) -> None:
    """Make new names in a folder survive a power failure."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
