"""Snapshot files: what is written comes back, and every damaged byte is noticed and named."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from index import snapshot
from index.snapshot import SnapshotError, open_snapshot, write_snapshot

ARRAYS = {
    "bytes": np.arange(7, dtype=np.uint8),
    "numbers": np.array([[0.5, -0.0], [np.inf, 1e-300]]),
    "nothing": np.zeros((0, 3), np.int32),
    "marks": np.array([True, False]),
    "strided": np.arange(20, dtype=np.int64)[::3],
    "alone": np.array(3, np.int16),
}
META = {"epoch": 7, "names": ["é", "b"], "nothing": None}


@pytest.fixture
def written(tmp_path: Path) -> Path:
    path = tmp_path / "base.snapshot"
    size = write_snapshot(path, META, ARRAYS)
    assert size == path.stat().st_size
    return path


@pytest.mark.parametrize("verify", [True, False])
def test_arrays_and_meta_come_back(written: Path, verify: bool) -> None:
    meta, arrays = open_snapshot(written, verify)
    assert meta == META
    assert list(arrays) == list(ARRAYS)
    for name, array in ARRAYS.items():
        assert arrays[name].dtype == array.dtype
        assert arrays[name].shape == array.shape
        assert arrays[name].tobytes() == array.tobytes()


def test_arrays_are_aligned(written: Path) -> None:
    _, arrays = open_snapshot(written)
    for array in arrays.values():
        assert array.size == 0 or array.ctypes.data % snapshot.ALIGNMENT == 0


def test_writing_to_an_array_never_reaches_the_file(written: Path) -> None:
    _, arrays = open_snapshot(written)
    arrays["bytes"][0] = 77
    assert open_snapshot(written)[1]["bytes"][0] == 0


def test_no_arrays_and_no_meta(tmp_path: Path) -> None:
    write_snapshot(tmp_path / "empty", {}, {})
    assert open_snapshot(tmp_path / "empty") == ({}, {})


def test_an_open_snapshot_outlives_its_replacement(written: Path) -> None:
    _, before = open_snapshot(written)
    write_snapshot(written, {}, {"bytes": np.zeros(1, np.uint8)})
    assert before["bytes"].tolist() == list(range(7))
    assert open_snapshot(written)[1]["bytes"].tolist() == [0]


def test_every_flipped_byte_is_noticed(written: Path) -> None:
    """Padding alone may change unseen."""
    content = written.read_bytes()
    noticed = 0
    for position in range(len(content)):
        damaged = bytearray(content)
        damaged[position] ^= 1
        written.write_bytes(damaged)
        try:
            _, arrays = open_snapshot(written)
        except SnapshotError as error:
            assert str(written) in str(error)
            noticed += 1
        else:
            assert all(arrays[name].tobytes() == ARRAYS[name].tobytes() for name in ARRAYS)
    assert noticed >= len(content) - snapshot.ALIGNMENT * (len(ARRAYS) + 1)


def test_a_damaged_array_is_named(written: Path) -> None:
    content = bytearray(written.read_bytes())
    content[-1] ^= 1
    written.write_bytes(content)
    with pytest.raises(SnapshotError, match="array alone: its checksum differs"):
        open_snapshot(written)
    assert open_snapshot(written, verify=False)[0] == META


@pytest.mark.parametrize("kept", [0, 5, 60, 200, -1])
def test_a_truncated_file_is_refused(written: Path, kept: int) -> None:
    content = written.read_bytes()
    written.write_bytes(content[:kept])
    with pytest.raises(SnapshotError, match="ends after"):
        open_snapshot(written, verify=False)


def test_other_files_and_versions_are_refused(written: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.write_bytes(b"PK\x03\x04" + bytes(200))
    with pytest.raises(SnapshotError, match="not a snapshot file"):
        open_snapshot(other)
    content = bytearray(written.read_bytes())
    content[8] = 9
    written.write_bytes(content)
    with pytest.raises(SnapshotError, match="format 9"):
        open_snapshot(written)


def test_a_failed_write_leaves_the_former_file(
    written: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("index.snapshot.os.fsync", full)
    with pytest.raises(OSError, match="No space"):
        write_snapshot(written, {}, {})
    assert open_snapshot(written)[0] == META
    assert list(written.parent.iterdir()) == [written]


def test_objects_cannot_be_stored(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="array words"):
        write_snapshot(tmp_path / "x", {}, {"words": np.array(["a", None], object)})
