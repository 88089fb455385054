"""Plans are exchanged where a batch is too large, too small or unfair, and nowhere else."""

from __future__ import annotations

from pathlib import Path

import orjson
import pytest
from confluent_kafka import KafkaError, KafkaException
from hypothesis import given
from hypothesis import strategies as st

from streaming.limit import BatchLimit, load_limit
from streaming.metrics import Metrics
from streaming.offset_log import planned_offsets
from streaming.pace import Pace, Replanned
from streaming.pins import Offsets
from streaming.shares import fair_end, size_of, starved

TARGET_S = 1.0
START: Offsets = {"events": {0: 100, 1: 7}}


def at(*counts: int) -> Offsets:
    """Offsets so far behind START."""
    return {"events": {0: 100 + counts[0], 1: 7 + counts[1]}}


@given(st.lists(st.integers(0, 10**6), min_size=1, max_size=20), st.integers(1, 10**5))
def test_shares_are_even_and_nothing_is_left_unused(waiting: list[int], limit: int) -> None:
    start: Offsets = {"t": dict.fromkeys(range(len(waiting)), 5)}
    latest: Offsets = {"t": {p: 5 + count for p, count in enumerate(waiting)}}
    end = fair_end(start, latest, limit)
    taken = [end["t"][p] - 5 for p in range(len(waiting))]
    assert all(0 <= a <= b for a, b in zip(taken, waiting, strict=True))
    assert all(a > 0 for a, b in zip(taken, waiting, strict=True) if b)
    assert sum(taken) <= max(limit, len(waiting))
    assert sum(taken) >= min(limit, sum(waiting))
    cut = [a for a, b in zip(taken, waiting, strict=True) if a < b]
    if cut:  # who does not get all that waits gets as much as anybody, but for a remainder
        assert max(taken) - min(cut) <= 1


def test_a_partition_without_a_start_has_no_share() -> None:
    assert fair_end({"t": {0: 1}}, {"t": {0: 9, 1: 9}}, 4) == {"t": {0: 5}}
    assert size_of({"t": {0: 1}}, {"t": {0: 9, 1: 9}, "u": {0: 4}}) == 8


def test_who_is_starved() -> None:
    assert starved(START, at(999, 1), at(990, 10)) == [("events", 1)]
    assert starved(START, at(999, 1), at(999, 1)) == []
    assert starved(START, at(990, 6), at(985, 11)) == []


class World:
    """A pace, the broker's ends, a clock, and batches as Spark would plan them."""

    def __init__(self, folder: Path, first: int = 1_000) -> None:
        self.folder = folder
        (folder / "offsets").mkdir()
        self.ends = at(0, 0)
        self.now = 0.0
        self.answers = True
        self.wanted: Offsets = {}
        self.metrics = Metrics()
        self.pace = Pace(
            BatchLimit(first, 10_000, TARGET_S), self._ends, folder, self.metrics, lambda: self.now
        )
        assert self.pace.limit_to_apply() == first

    def _ends(self) -> Offsets:
        if not self.answers:
            raise KafkaException(KafkaError(KafkaError._TRANSPORT))
        return self.ends

    def plan(self, batch: int, end: Offsets) -> None:
        """As Spark does it."""
        named = orjson.dumps(end, option=orjson.OPT_NON_STR_KEYS).decode()
        (self.folder / "offsets" / str(batch)).write_text(f"v1\n{{}}\n{named}")

    def runs(self, batch: int, end: Offsets) -> bool:
        """Plan a batch; whether it runs like this."""
        self.plan(batch - 1, START)
        self.plan(batch, end)
        self.wanted = self.pace.end_of(batch, end)
        return self.wanted == end

    def took(self, events: int, seconds: float) -> None:
        """A batch of so many events has been written."""
        self.plan(0, START)
        self.plan(1, at(events, 0))
        self.pace.note(1, at(events, 0), seconds)

    def turn(self, batch: int, seconds: float) -> Offsets:
        """Start the query again, which takes a while; the plan it then finds."""
        with pytest.raises(Replanned):
            self.pace.turn(batch, self.wanted)
        self.pace.limit_to_apply()
        self.now += seconds + TARGET_S
        planned = planned_offsets(self.folder, batch)
        self.pace.note(batch, planned, TARGET_S)
        return planned


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def test_a_batch_with_all_that_waits_runs(world: World) -> None:
    world.ends = at(400, 3)
    assert world.runs(1, at(400, 3))


def test_a_short_queue_is_served_whole_beside_a_long_one(world: World) -> None:
    world.ends = at(1_000_000, 30)
    assert not world.runs(1, at(999, 1))
    assert world.turn(1, 0.2) == at(970, 30)
    assert world.metrics.replans.labels("skew")._value.get() == 1


def test_a_backlog_that_is_soon_done_is_left_to_spark(world: World) -> None:
    world.ends = at(2_500, 30)
    assert world.runs(1, at(988, 12))


def test_even_backlogs_are_left_to_spark(world: World) -> None:
    world.ends = at(900_000, 1_000_000)
    assert world.runs(1, at(473, 526))


def test_starting_again_takes_a_fifth_of_the_time_at_most(world: World) -> None:
    world.ends = at(1_000_000, 30)
    assert not world.runs(1, at(999, 1))
    world.turn(1, 0.5)
    world.now += 2.4
    assert world.runs(2, at(999, 1))
    world.now += 0.1
    assert not world.runs(3, at(999, 1))


def test_a_smaller_limit_takes_effect_before_the_next_large_batch(world: World) -> None:
    world.ends = at(5_000, 5_000)
    world.took(1_000, 20.0)
    assert load_limit(world.folder) == 50
    assert world.runs(1, at(20, 20)), "it is small enough as it is"
    assert not world.runs(2, at(500, 500))
    assert world.turn(2, 0.1) == at(25, 25)
    assert world.runs(3, at(25, 25))


def test_a_larger_limit_takes_effect_where_much_waits(world: World) -> None:
    world.took(1_000, 0.1)
    world.ends = at(600, 600)
    assert world.runs(1, at(500, 500))
    world.ends = at(50_000, 50_000)
    assert not world.runs(2, at(500, 500))
    assert world.turn(2, 0.1) == at(5_000, 5_000)


def test_a_broker_that_is_away_keeps_nothing_from_running(world: World) -> None:
    world.ends, world.answers = at(1_000_000, 30), False
    assert world.runs(1, at(999, 1))


def test_the_first_batch_of_all_runs_as_planned(world: World) -> None:
    assert world.pace.end_of(0, at(999, 1)) == at(999, 1)


def test_a_partition_that_is_new_keeps_what_spark_planned(world: World) -> None:
    world.ends = {"events": {0: 1_000_100, 1: 37, 2: 5}}
    assert not world.runs(1, {"events": {0: 1_099, 1: 8, 2: 5}})
    assert world.turn(1, 0.1)["events"][2] == 5
