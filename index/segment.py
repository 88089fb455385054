"""Segment: what an algorithm has to offer so that `index.updatable` makes an index of it.

A segment knows some rows of a store by their programs, and nothing of ids, versions or changes.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from index.access import Shares
from index.columns import EventBatch
from index.kernels.probe import Compiled, Hits
from index.vocabulary import Vocabulary

Step = Callable[[Hits, int], tuple[int, int]]
"""Matches from an event on; see `collect_hits`."""


class Segment(ABC):
    """An algorithm's structure over some rows of a store; immutable once built."""

    @classmethod
    @abstractmethod
    def build(
        cls, compiled: Compiled, rows: NDArray[np.int32], attribute_count: int, shares: Shares
    ) -> Self:
        """The structure for `rows`, which ascend."""

    @abstractmethod
    def match(self, compiled: Compiled, batch: EventBatch, attribute_count: int) -> Hits:
        """Rows that hold or are undecided, by event; `compiled` may have grown since `build`."""

    @abstractmethod
    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """Everything, as arrays of numbers that a snapshot can hold."""

    @classmethod
    @abstractmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> Self:
        """The structure that `to_arrays` wrote."""

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays."""
        return sum(array.nbytes for array in self.to_arrays().values())

    @abstractmethod
    def stats(self) -> dict[str, int]:
        """Counts; those of several segments are added up."""

    @abstractmethod
    def check(self, rows: NDArray[np.int32]) -> None:
        """Assert every invariant; `rows` are those it was built for."""

    @abstractmethod
    def filing_of(self, compiled: Compiled, vocabulary: Vocabulary, row: int) -> str:
        """Where a row is kept, in words."""


def with_prefix(prefix: str, arrays: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """The arrays of a part, named so that others can stand beside them."""
    return {f"{prefix}{name}": array for name, array in arrays.items()}


def under_prefix(prefix: str, arrays: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """The arrays of the part that `with_prefix` named."""
    return {
        name.removeprefix(prefix): array
        for name, array in arrays.items()
        if name.startswith(prefix)
    }


def collect_hits(step: Step, event_count: int, room: int) -> Hits:
    """The hits of all events, in an array that grows when an event's may not fit.

    step    matches from an event on; returns (event count, 0), or the event it could not begin for
            want of room, and how many more hits must fit before it is tried again.
    room    hits that fit at first
    """
    hits = Hits(np.zeros(event_count + 1, np.int64), np.empty(room, np.int64))
    event, missing = step(hits, 0)
    while event < event_count:
        hit = np.empty(2 * (hits.hit.size + missing), np.int64)
        hit[: hits.start[event]] = hits.hit[: hits.start[event]]
        hits = hits._replace(hit=hit)
        event, missing = step(hits, event)
    return hits._replace(hit=hits.hit[: hits.start[-1]])


def hits_by_event(hits: Hits, event_count: int) -> Hits:
    """The hits of parts that met all events one after the other, as those of the events.

    hits    start[p * event_count + e] is where the hits of part p on event e begin
    """
    sizes = np.diff(hits.start)
    by_part = sizes.reshape(-1, max(event_count, 1))
    start = np.zeros(event_count + 1, np.int64)
    np.cumsum(by_part.sum(axis=0)[:event_count], out=start[1:])
    first = (np.cumsum(by_part, axis=0) - by_part)[:, :event_count] + start[:-1]
    hit = np.empty_like(hits.hit)
    hit[np.arange(hit.size) + np.repeat(first.ravel() - hits.start[:-1], sizes)] = hits.hit
    return Hits(start, hit)
