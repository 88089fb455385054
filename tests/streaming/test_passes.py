"""However a batch is cut into passes, and whoever goes on between them: the same is told."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from random import Random

import orjson
import pyarrow as pa
import pytest

from store.records import Mode, SubscriptionRecord
from streaming.crowd import part_of
from streaming.match import match_batches
from streaming.packing import unpack
from streaming.pins import Pin
from streaming.positions import Mark, PositionError, Positions
from streaming.refresh import LiveIndex
from streaming.task import decode_batch, encode_batch
from streaming.telling import CROWD_MATCHES
from tests.streaming.records import Record, batch_of, equals, index_of, request_of, subscription

Line = tuple[str, bytes, int]
"""What one record says: its id or place, its value, and its kind."""
PIN = Pin(0, 1, "one", "2026-01-01T00:00:00Z", {}, {"events": {0: 100, 1: 100}})


def subscriptions(count: int = 40) -> list[SubscriptionRecord]:
    modes = (Mode.THIN, Mode.FULL, Mode.COMPACT, Mode.COMPACT)
    return [
        subscription(
            f"s{number:03d}",
            equals("a", 1) if number % 3 else True,
            mode=modes[number % 4],
            tenant="other" if number % 7 == 0 else "acme",
            consumer_key="desk" if number % 5 == 0 else None,
            expires_at="2026-01-01T00:00:00Z" if number % 11 == 0 else None,
        )
        for number in range(count)
    ]


def tasks() -> list[list[pa.RecordBatch]]:
    """Two partitions, the first in two batches, with what is no event in between."""
    values = (b'{"a":1}', b'{"a":2}', b"{", b'{"a":1,"pad":"%b"}' % (b"x" * 900), None, b'{"a":1}')
    first = batch_of(*(Record(value, key=b"k") for value in values))
    more = batch_of(*(Record(value) for value in values[::-1]), first_offset=6)
    other = batch_of(*(Record(value, partition=1) for value in values[2:]))
    return [[first, more], [other]]


class Course:
    """Passes over a batch, until all of it was told of."""

    def __init__(self, part_bytes: int, end: Positions) -> None:
        self.end = end
        self.positions = Positions({})
        self.lines: Counter[Line] = Counter()
        self.passes = 0
        self._template = request_of(part_bytes=part_bytes, notification_bytes_max=1_000)

    @property
    def is_done(self) -> bool:
        return not self.positions.lacking(self.end)

    def run_pass(self, live: LiveIndex, share_bytes: int) -> None:
        request = decode_batch(self._template, encode_batch(PIN, self.positions, share_bytes))
        reached = Positions({topic: dict(ends) for topic, ends in self.end.offsets.items()})
        for task in tasks():
            for packed in match_batches(request, task, live):
                notifications, letters, counters = (one[0].as_py() for one in packed.columns)
                output = unpack(notifications, letters)
                self.lines.update(
                    (name.decode(), value, kind)
                    for name, value, kind in zip(
                        output.ids, output.values, output.kinds, strict=True
                    )
                )
                self.lines.update(
                    (dict(letter.headers)["herald_offset"].decode(), letter.value or b"", -1)  # type: ignore[union-attr]
                    for letter in output.dead_letters
                )
                left = orjson.loads(counters).get("reached", {})
                for topic, partitions in left.items():
                    for partition, (offset, part, parts) in partitions.items():
                        reached.offsets[topic][int(partition)] = offset
                        if part:
                            mark = Mark(part, parts, PIN.epoch, PIN.lineage, PIN.now)
                            reached.marks.setdefault(topic, {})[int(partition)] = mark
        assert reached.lacking(self.positions) == 0, "nothing goes back"
        self.positions = self.positions.with_later(reached)
        self.passes += 1
        assert self.passes < 2_000, "each pass gets on"


def told(
    lives: Sequence[LiveIndex], part_bytes: int, random: Random, shares: Sequence[int]
) -> Course:
    course = Course(part_bytes, Positions({"events": {0: 12, 1: 4}}))
    while not course.is_done:
        course.run_pass(random.choice(lives), random.choice(shares))
    return course


@pytest.mark.parametrize("part_bytes", [1, 1_500, 1_000_000])
@pytest.mark.parametrize("shares", [(1,), (700,), (1, 300, 3_000)])
def test_any_cut_tells_the_same_as_one_pass(
    tmp_path: Path, part_bytes: int, shares: tuple[int, ...]
) -> None:
    """Also where each pass finds the index laid out in another way, as after a crash."""
    records = subscriptions()
    lives = [index_of(tmp_path / "1", *records), index_of(tmp_path / "2", *records[::-1])]
    whole = told(lives[:1], part_bytes, Random(0), (10**9,))
    assert whole.passes == 1
    assert max(whole.lines.values()) == 1
    cut = told(lives, part_bytes, Random(1), shares)
    assert cut.passes > 1
    assert cut.lines == whole.lines


def test_parts_tell_each_subscription_once_whatever_they_cost(tmp_path: Path) -> None:
    """Many parts change the chunks of compact notifications, and nothing else."""
    live = index_of(tmp_path, *subscriptions())
    one, many = (told([live], size, Random(0), (10**9,)) for size in (10**9, 500))
    names = [Counter(map(subscription_name, course.lines)) for course in (one, many)]
    plain = [{line for line in course.lines if line[2] < 128} for course in (one, many)]
    assert plain[0] == plain[1]
    assert sum(names[0].values()) < sum(names[1].values())


def subscription_name(line: Line) -> str:
    return line[1].decode()


def test_a_crowd_is_told_of_as_few_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    live = index_of(tmp_path, *subscriptions())
    few = told([live], 2_000, Random(0), (10**9,))
    monkeypatch.setattr("streaming.telling.CROWD_MATCHES", 3)
    monkeypatch.setattr("streaming.crowd._BLOCK_ROWS", 4)
    assert told([live], 2_000, Random(0), (10**9,)).lines == few.lines
    assert CROWD_MATCHES > 3


def test_what_is_left_when_a_mark_is_ignored_is_told_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    live = index_of(tmp_path, *subscriptions())
    monkeypatch.setattr("streaming.match.resumed_rows", lambda records, request: {})
    course = Course(1, Positions({"events": {0: 12, 1: 4}}))
    for _ in range(20):
        course.run_pass(live, 300)
    assert max(course.lines.values()) > 1


def test_events_left_out_are_not_counted_and_parts_of_them_are(tmp_path: Path) -> None:
    live = index_of(tmp_path, *subscriptions())
    request = request_of(share_bytes=1, part_bytes=10**9)
    rows = [
        orjson.loads(packed.column(2)[0].as_py())
        for packed in match_batches(request, tasks()[0], live)
    ]
    assert rows[0]["rows"] - rows[0]["untold"] == 1
    assert rows[-1] == {"reached": {"events": {"0": [1, 0, 0]}}}
    assert len(rows) == 2


def test_a_part_is_a_matter_of_the_name_alone() -> None:
    names = [b"acme\0s%d" % number for number in range(20_000)]
    counts = Counter(part_of(name, 16) for name in names)
    assert set(counts) == set(range(16))
    assert max(counts.values()) < 1.2 * min(counts.values())
    assert part_of(b"acme\0s1", 1) == 0
    assert part_of(b"acme\0s1", 1_000) == 24


def test_a_mark_survives_as_metadata_and_others_are_none() -> None:
    mark = Mark(3, 40, 9, "x-1", "2026-01-01T00:00:00Z")
    assert Mark.decode(mark.encode()) == mark
    assert len(mark.encode()) < 1_000
    for other in (None, "", "consumer-1", "[1]", '{"a":1}'):
        assert Mark.decode(other) is None
    with pytest.raises(PositionError, match="upgrade Herald"):
        Mark.decode('{"v":2,"part":1}')


def test_positions_never_go_back() -> None:
    mark = Mark(3, 40, 9, "", "")
    here = Positions({"e": {0: 70, 1: 55}}, {"e": {1: mark}})
    other = Positions({"e": {0: 50, 1: 60, 2: 1}})
    assert here.lacking(other) == 2
    later = here.with_later(other)
    assert later == Positions({"e": {0: 70, 1: 60, 2: 1}})
    further = Positions({"e": {1: 55}}, {"e": {1: mark._replace(part=4)}})
    assert here.lacking(further) == 1
    assert further.lacking(Positions({"e": {1: 55}})) == 0
    assert here.with_later(further).marks == {"e": {1: mark._replace(part=4)}}
