"""Growing phase: a predicate phase to which leaves are added while it is in use.

Paper    Fabret et al., SIGMOD 2001, section 2.3: inserting a subscription inserts the predicates of
         it that are new into the indexes.
Idea     spaces and keys of a phase are built at once (index.predicate_phase). So new leaves are
         tested one by one while they are few, then become a small phase of their own; a phase is
         built into one with those after it, unless it is RATIO times as large. What a leaf that no
         row asks for any more leaves behind is given back when all is renewed.
Layout   parts    phases, each RATIO times the next, with the number of each leaf
         loose    up to LOOSE_MAX leaves and their numbers, ascending
Worked   RATIO 8, LOOSE_MAX 64: 500 leaves at once are part [500]; the next 60 are loose; 40 more
         make 100 loose ones, too many: 500 is less than 8 * 100, so there is one part [600].
Cost     add: each leaf is built into log(leaves) / log(RATIO) parts, RATIO times each at most. An
         event is looked up in each part.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from index.columns import EventBatch
from index.companion import joined_hits
from index.frozen import frozen
from index.kernels import leaf
from index.kernels.event_parts import Memory
from index.kernels.probe import Compiled, Hits
from index.kernels.verify import YES, Scratch, enter_event, leaf_holds, leave_event, new_scratch
from index.predicate_phase import (
    PhaseColumns,
    build_phase,
    phase_from_arrays,
    phase_memory,
    phase_to_arrays,
    satisfied,
)
from index.predicates import PredicateColumns
from index.segment import collect_hits, under_prefix, with_prefix

RATIO = 8
LOOSE_MAX = 64
HELD_PER_EVENT = 64
"""Room for leaves that hold, at first."""


class PhasePart(NamedTuple):
    """A phase, and the numbers of its leaves."""

    phase: PhaseColumns
    number: NDArray[np.int32]  # [l] by place


class PhaseMemory(NamedTuple):
    """Working memory of one call: of each part, and for loose leaves."""

    parts: list[Memory]
    scratch: Scratch


class GrowingPhase:
    """Leaves by code, with numbers that their owner has given them."""

    def __init__(self, parts: list[PhasePart], code: NDArray[np.int32], number: NDArray[np.int32]):
        self._parts = [frozen(part) for part in parts]
        self._loose = frozen((code, number))

    @classmethod
    def empty(cls) -> Self:
        """No leaves."""
        return cls([], np.empty(0, np.int32), np.empty(0, np.int32))

    def numbers_of(self, codes: NDArray[np.int32]) -> NDArray[np.int32]:
        """The number of each leaf, -1 where it is new."""
        numbers = np.full(codes.size, -1, np.int32)
        known = [(part.phase.leaf, part.number) for part in self._parts] + [self._loose]
        for code, number in known:
            if code.size:
                at = np.minimum(np.searchsorted(code, codes), code.size - 1)
                found = code[at] == codes
                numbers[found] = number[at[found]]
        return numbers

    def add(
        self,
        compiled: Compiled,
        codes: NDArray[np.int32],
        numbers: NDArray[np.int32],
        attribute_count: int,
    ) -> None:
        """Take in new leaves."""
        codes, numbers = _merged([self._loose, (codes, numbers)])
        if codes.size > LOOSE_MAX:
            kept = list(self._parts)
            while kept and kept[-1].number.size < RATIO * codes.size:
                part = kept.pop()
                codes, numbers = _merged([(part.phase.leaf, part.number), (codes, numbers)])
            phase = build_phase(compiled, codes, attribute_count)
            self._parts = [*kept, frozen(PhasePart(phase, numbers))]
            codes, numbers = np.empty(0, np.int32), np.empty(0, np.int32)
        self._loose = frozen((codes, numbers))

    def memory(self, batch: EventBatch, attribute_count: int) -> PhaseMemory:
        """Working memory for `satisfied` on a batch."""
        parts = [phase_memory(part.phase, batch, attribute_count) for part in self._parts]
        return PhaseMemory(parts, new_scratch(attribute_count))

    def satisfied(
        self, compiled: Compiled, batch: EventBatch, memory: PhaseMemory, events: range
    ) -> Hits:
        """The numbers of the leaves that hold of each of some events; an event is asked for once
        with one memory.
        """
        code, number = self._loose
        found = Hits(np.zeros(len(events) + 1, np.int64), np.empty(0, np.int64))
        if code.size:
            found = found._replace(hit=np.empty(code.size * len(events), np.int64))
            try_loose((code, number), compiled.predicates, batch, memory.scratch, found, events[0])
            found = found._replace(hit=found.hit[: found.start[-1]])
        for part, own in zip(self._parts, memory.parts, strict=True):
            found = joined_hits(_listed(part, compiled, batch, own, events), found)
        return found

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """Everything, as arrays of numbers that a snapshot can hold."""
        arrays: dict[str, NDArray[Any]] = dict(
            zip(("loose_code", "loose_number"), self._loose, strict=True)
        )
        for at, part in enumerate(self._parts):
            stored = {**phase_to_arrays(part.phase), "number": part.number}
            arrays |= with_prefix(f"part{at}.", stored)
        return arrays

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> Self:
        """The phase that `to_arrays` wrote."""
        parts: list[PhasePart] = []
        while f"part{len(parts)}.number" in arrays:
            own = under_prefix(f"part{len(parts)}.", arrays)
            parts.append(PhasePart(phase_from_arrays(own), own["number"]))
        return cls(parts, arrays["loose_code"], arrays["loose_number"])

    @property
    def part_count(self) -> int:
        """Parts that every event is looked up in."""
        return len(self._parts)

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays."""
        return sum(array.nbytes for array in self.to_arrays().values())

    def check(self) -> None:
        """Codes ascend in every part, and no leaf is in two."""
        known = [(part.phase.leaf, part.number) for part in self._parts] + [self._loose]
        for codes, numbers in known:
            assert np.all(np.diff(codes) > 0), "leaves of a part do not ascend"
            assert codes.size == numbers.size, "a leaf without number"
        numbers = np.concatenate([numbers for _, numbers in known])
        assert np.unique(numbers).size == numbers.size, "a number of two leaves"
        codes = np.concatenate([codes for codes, _ in known])
        assert np.unique(codes).size == codes.size, "a leaf in two parts"
        assert self._loose[0].size <= LOOSE_MAX, "too many loose leaves"


def _merged(
    parts: list[tuple[NDArray[np.int32], NDArray[np.int32]]],
) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Codes and numbers of several parts, ascending by code."""
    code = np.concatenate([codes for codes, _ in parts])
    number = np.concatenate([numbers for _, numbers in parts])
    order = np.argsort(code)
    return code[order], number[order]


def _listed(
    part: PhasePart, compiled: Compiled, batch: EventBatch, memory: Memory, events: range
) -> Hits:
    """The numbers of a part's leaves that hold."""
    bounds = events.start, events.stop
    return collect_hits(
        lambda room, at: list_satisfied(part, compiled, batch, memory, room, (*bounds, at)),
        len(events),
        part.number.size + HELD_PER_EVENT * len(events),
    )


@leaf
def list_satisfied(
    part: PhasePart,
    compiled: Compiled,
    batch: EventBatch,
    memory: Memory,
    found: Hits,
    events: tuple[int, int, int],
) -> tuple[int, int]:
    """List what holds of events events[0] + events[2] up to events[1]; returns as `collect_hits`
    asks for.
    """
    first, stop, at = events
    count = found.start[at]
    for event in range(first + at, stop):
        if found.hit.size - count < part.number.size:
            return event - first, part.number.size
        enter_event(batch, event, memory.scratch.entry_of)
        leaf_count = satisfied(part.phase, compiled.predicates, batch, event, memory)
        leave_event(batch, event, memory.scratch.entry_of)
        for place in range(leaf_count):
            found.hit[count] = part.number[memory.candidate[place]]
            count += 1
        found.start[event - first + 1] = count
    return stop - first, 0


@leaf
def try_loose(
    loose: tuple[NDArray[np.int32], NDArray[np.int32]],
    predicates: PredicateColumns,
    batch: EventBatch,
    scratch: Scratch,
    found: Hits,
    first: int,
) -> None:
    """List the loose leaves that hold of events from `first` on; there is room for all."""
    codes, numbers = loose
    count = 0
    for at in range(found.start.size - 1):
        enter_event(batch, first + at, scratch.entry_of)
        for place in range(codes.size):
            if leaf_holds(predicates, codes[place], batch, scratch) == YES:
                found.hit[count] = numbers[place]
                count += 1
        leave_event(batch, first + at, scratch.entry_of)
        found.start[at + 1] = count
