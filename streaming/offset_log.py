"""Offset log: what Spark plans of a batch, before it runs; read, and written anew.

A file of the checkpoint a batch: a version, a line of metadata, a line a source. Spark writes it
when it plans the batch, and runs a batch that was planned but not recorded as it stands there. So
a plan may be exchanged as long as nothing of its batch was matched: nobody has seen it.
"""

from __future__ import annotations

import os
from pathlib import Path

import orjson

from index.snapshot import sync_folder
from streaming.pins import Offsets, offsets_of, write_synced
from streaming.source import SourceError

FOLDER = "offsets"
VERSION = "v1"


def planned_offsets(checkpoint: Path, batch: int) -> Offsets:
    """The end of a batch as Spark planned it."""
    return _read(checkpoint / FOLDER / str(batch))[1]


def is_planned(checkpoint: Path, batch: int) -> bool:
    """Whether Spark's log has a batch; of those that are long done it has not."""
    return (checkpoint / FOLDER / str(batch)).exists()


def replace_plan(checkpoint: Path, batch: int, end: Offsets) -> None:
    """Have a batch that is planned, and of which nothing was matched, end where it is pinned."""
    folder = checkpoint / FOLDER
    path = folder / str(batch)
    metadata, _ = _read(path)
    planned = orjson.dumps(end, option=orjson.OPT_NON_STR_KEYS).decode()
    aside = folder / f".{batch}.herald.{os.getpid()}.tmp"
    write_synced(aside, "\n".join((VERSION, metadata, planned)).encode())
    # Spark's checksum of the former content; a file without any is taken as it is.
    (folder / f".{batch}.crc").unlink(missing_ok=True)
    os.replace(aside, path)
    sync_folder(folder)


def _read(path: Path) -> tuple[str, Offsets]:
    """The line of metadata and the offsets."""
    try:
        version, metadata, planned = path.read_text(encoding="utf-8").splitlines()
        if version != VERSION:
            raise ValueError(f"format {version}, but only {VERSION} is known")
        return metadata, offsets_of(orjson.loads(planned))
    except (OSError, ValueError, AttributeError) as error:
        raise SourceError(
            f"{path} is not the offset log of one Kafka source ({error}); the checkpoint is "
            "damaged, of another query, or of a later release: restore it, start that release, or "
            "choose another HERALD_CHECKPOINT_DIR."
        ) from error
