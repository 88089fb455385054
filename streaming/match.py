"""Match: the plain function from an Arrow batch of records to packed notifications.

It knows nothing of Spark: `match_partition` is what mapInArrow calls, and tests call it likewise.
Its result depends on the records, the pinned epoch and the pinned time alone.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from index.columns import Matches
from index.errors import EventError
from index.instants import parse_instant
from index.model import Instant
from streaming.decode import Decoded, Records, decode
from streaming.drift import sample_of
from streaming.failpoints import hit
from streaming.notify import Notifier, Pairs
from streaming.packing import DeadLetter, Output, pack
from streaming.pins import Offsets
from streaming.refresh import IndexOptions, LiveIndex, live_index

DETAIL_LENGTH_MAX = 500
"""Of a dead letter's reason in words: it may quote the input."""
DEAD_LETTER_FORMAT = 1
"""Of what our own headers say; the first release did not write it."""
DEAD_LETTER_OVERHEAD = 4_096
"""Room for our own headers under the broker's limit on a record."""


@dataclass(frozen=True, slots=True)
class MatchRequest:
    """What a worker needs to know of a batch; it travels with every task, so it stays small.

    now         the pinned time, RFC 3339.
    committed   events before these offsets have been told of already; left out.
    """

    index: IndexOptions
    epoch: int
    lineage: str
    now: str
    committed: Offsets = field(default_factory=dict)
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
    for batch in batches:
        yield from match_batch(request, batch, live_index(request.index))


def match_batch(
    request: MatchRequest, batch: pa.RecordBatch, live: LiveIndex
) -> Iterator[pa.RecordBatch]:
    """One batch of records; more than one row only when its output is large."""
    clock = _Clock()
    records = Records.of(without_committed(batch, request.committed))
    hit("match.begun")
    live.reach(request.epoch, request.lineage)
    refresh_s = clock.lap()
    decoded = decode(
        records, live.vocabulary, request.hops_max, () if request.lift_data else ("data",)
    )
    decode_s = clock.lap()
    matches = live.match(decoded.events, request.instant, request.epoch)
    match_s = clock.lap()
    hit("match.matched")
    counters: dict[str, Any] = {
        "rows": len(records),
        "skipped": batch.num_rows - len(records),
        "matches": len(matches.row),
        "refresh_s": refresh_s,
        "decode_s": decode_s,
        "match_s": match_s,
        "index": live.facts(),
        "rejected": count_reasons(decoded.rejected),
        "sample": sample_of(decoded.events),
    }
    output, count = Output(), 0
    for row, error in decoded.rejected:
        output.bury(dead_letter(records, row, error, request.dead_letter_bytes_max))
        if output.is_full():
            yield pack(output, {})
            output = Output()
    notifier = Notifier(
        request.epoch, request.notification_bytes_max, records, decoded, live.targets
    )
    pairs = pairs_of(decoded, matches, live, request.instant)
    for notifications in notifier.write(pairs):
        output.notify(*notifications)
        count += len(notifications[0])
        if output.is_full():
            yield pack(output, {})
            output = Output()
    yield pack(output, counters | {"notifications": count, "notify_s": clock.lap()})


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


def pairs_of(decoded: Decoded, matches: Matches, live: LiveIndex, now: Instant) -> Pairs:
    """Each event with the targets to tell of it: no rejected event, and none that has expired."""
    found = np.diff(matches.start)
    event = np.repeat(np.arange(found.size, dtype=np.int32), found)
    row = matches.row
    if decoded.rejected:
        accepted = ~np.isin(event, [rejected for rejected, _ in decoded.rejected])
        event, row = event[accepted], row[accepted]
    place = live.places_of(row)
    alive = live.targets.alive(place, now)
    return Pairs(event, place) if alive.all() else Pairs(event[alive], place[alive])


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


def count_reasons(rejected: list[tuple[int, EventError]]) -> dict[str, int]:
    """How often each reason occurs."""
    counts: dict[str, int] = {}
    for _, error in rejected:
        counts[error.reason] = counts.get(error.reason, 0) + 1
    return counts
