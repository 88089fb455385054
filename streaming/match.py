"""Match: the plain function from an Arrow batch of records to packed notifications.

It knows nothing of Spark: `match_partition` is what mapInArrow calls, and tests call it likewise.
Its result depends on the records, the pinned epoch and the pinned time alone.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from index.errors import EventError
from index.instants import parse_instant
from index.model import Instant
from streaming.crowd import PART_BYTES
from streaming.decode import Records, decode
from streaming.drift import sample_of
from streaming.failpoints import hit
from streaming.notify import Notifier
from streaming.packing import DeadLetter, Output, pack
from streaming.pins import Offsets
from streaming.refresh import IndexOptions, LiveIndex, live_index
from streaming.telling import Resumed, Share, Teller

DETAIL_LENGTH_MAX = 500
"""Of a dead letter's reason in words: it may quote the input."""
DEAD_LETTER_FORMAT = 1
"""Of what our own headers say; the first release did not write it."""
DEAD_LETTER_OVERHEAD = 4_096
"""Room for our own headers under the broker's limit on a record."""


@dataclass(frozen=True, slots=True)
class MatchRequest:
    """What a worker needs to know of a batch; it travels with every task, so it stays small.

    now           the pinned time, RFC 3339.
    committed     events before these offsets have been told of already; left out.
    resumed       where the event at the committed offset was told of in part: the next part, of
                  how many.
    share_bytes   what a task may hand over before it leaves the rest to another pass.
    part_bytes    an event with more notifications is told of in parts.
    """

    index: IndexOptions
    epoch: int
    lineage: str
    now: str
    committed: Offsets = field(default_factory=dict)
    resumed: dict[str, dict[int, tuple[int, int]]] = field(default_factory=dict)
    share_bytes: int = sys.maxsize
    part_bytes: int = PART_BYTES
    hops_max: int = 4
    lift_data: bool = False
    notification_bytes_max: int = 900_000
    dead_letter_bytes_max: int = 900_000

    @property
    def instant(self) -> Instant:
        """The pinned time."""
        return parse_instant(self.now)


def match_partition(
    request: MatchRequest, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """All batches of one task, one after the other."""
    return match_batches(request, batches, live_index(request.index))


def match_batches(
    request: MatchRequest, batches: Iterable[pa.RecordBatch], live: LiveIndex
) -> Iterator[pa.RecordBatch]:
    """All batches of one task with a given index; what its share leaves out is in the last row.

    Batches that are left are read to their end all the same: Spark would have to start another
    worker in the place of one that does not.
    """
    share = Share(request.share_bytes)
    for batch in batches:
        records = without_committed(batch, request.committed)
        skipped, first = batch.num_rows - records.num_rows, 0
        while not share.is_spent:
            part = records.slice(first, live.slice_size.rows)
            yield from _match_slice(request, part, live, share, skipped)
            skipped, first = 0, first + part.num_rows
            if first >= records.num_rows:
                break
        share.leave(records.slice(first))
    if share.reached:
        yield pack(Output(), {"reached": share.reached})


def _match_slice(
    request: MatchRequest, batch: pa.RecordBatch, live: LiveIndex, share: Share, skipped: int
) -> Iterator[pa.RecordBatch]:
    """Records that are matched at once; more than one row only when their output is large."""
    clock = _Clock()
    records = Records.of(batch)
    hit("match.begun")
    live.reach(request.epoch, request.lineage)
    refresh_s = clock.lap()
    decoded = decode(
        records, live.vocabulary, request.hops_max, () if request.lift_data else ("data",)
    )
    decode_s = clock.lap()
    matches = live.match(decoded.events, request.instant, request.epoch)
    live.slice_size.note(len(records), len(matches.row))
    match_s = clock.lap()
    hit("match.matched")
    counters: dict[str, Any] = {
        "rows": len(records),
        "skipped": skipped,
        "refresh_s": refresh_s,
        "decode_s": decode_s,
        "match_s": match_s,
        "index": live.facts(),
        "sample": sample_of(decoded.events),
    }
    notifier = Notifier(request.epoch, request.notification_bytes_max, records, decoded)
    bury = partial(dead_letter, records, bytes_max=request.dead_letter_bytes_max)
    teller = Teller(notifier, records, decoded, live, request.instant, bury)
    resumed = resumed_rows(records, request)
    ready: Output | None = None
    for output in teller.tell(batch, matches, share, resumed, request.part_bytes):
        if ready is not None:
            yield pack(ready, {})
        ready = output
    counters |= {
        "untold": teller.untold,
        "matches": teller.matches,
        "notifications": teller.notifications,
        "rejected": count_reasons(teller.rejected),
        "notify_s": clock.lap(),
    }
    yield pack(ready or Output(), counters)


def resumed_rows(records: Records, request: MatchRequest) -> Resumed:
    """The rows of events that were told of in part, each with the next part, of how many."""
    rows: Resumed = {}
    for topic, partitions in request.resumed.items():
        for partition, (part, parts) in partitions.items():
            at = records.offsets == request.committed[topic][partition]
            for row in np.flatnonzero(at & (records.partitions == partition)).tolist():
                if records.topics[row].as_py() == topic:
                    rows[row] = part, parts
    return rows


class _Clock:
    """Seconds since the last lap."""

    def __init__(self) -> None:
        self._last = time.perf_counter()

    def lap(self) -> float:
        now = time.perf_counter()
        passed, self._last = now - self._last, now
        return passed


def without_committed(batch: pa.RecordBatch, committed: Offsets) -> pa.RecordBatch:
    """The records at and after the committed offsets of their partitions."""
    if not committed or batch.num_rows == 0:
        return batch
    partitions = batch.column("partition").to_numpy(zero_copy_only=False)
    offsets = batch.column("offset").to_numpy(zero_copy_only=False)
    topics = batch.column("topic").dictionary_encode()
    topic_numbers = topics.indices.to_numpy(zero_copy_only=False)
    keep: NDArray[np.bool_] = np.ones(batch.num_rows, bool)
    for number, topic in enumerate(topics.dictionary.to_pylist()):
        for partition, offset in committed.get(topic, {}).items():
            keep &= ~((topic_numbers == number) & (partitions == partition) & (offsets < offset))
    return batch if keep.all() else batch.filter(pa.array(keep))


def dead_letter(records: Records, row: int, error: EventError, bytes_max: int) -> DeadLetter:
    """A record as it came, and why it went no further."""
    value = records.values[row].as_py()
    headers = records.headers_of(row)
    about = {
        "herald_format": str(DEAD_LETTER_FORMAT),
        "herald_reason": error.reason,
        "herald_detail": error.detail[:DETAIL_LENGTH_MAX],
        "herald_topic": records.topics[row].as_py(),
        "herald_partition": str(records.partitions[row]),
        "herald_offset": str(records.offsets[row]),
        "herald_timestamp": records.timestamps[row].as_py().isoformat(),
    }
    room = bytes_max - DEAD_LETTER_OVERHEAD - len(records.keys[row].as_py() or b"")
    room -= sum(len(name) + len(content or b"") for name, content in headers)
    if value is not None and len(value) > room:
        about["herald_truncated"] = str(len(value))
        value = value[: max(0, room)]
    ours = [(name, content.encode(errors="replace")) for name, content in about.items()]
    return DeadLetter(records.keys[row].as_py(), value, [*headers, *ours])


def count_reasons(rejected: list[EventError]) -> dict[str, int]:
    """How often each reason occurs."""
    counts: dict[str, int] = {}
    for error in rejected:
        counts[error.reason] = counts.get(error.reason, 0) + 1
    return counts
