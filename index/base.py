"""MatchIndex: the interface of every index, six verbs and four ways to name what matched.

    build     all subscriptions at once                add      one more, or a new filter for an id
    match     a batch of events at one instant         remove   one less
    stats     counts of the structure, never timings   check    every invariant, slowly

An index answers in rows, its own dense numbering of subscriptions; `ids_of` and `attachments_of`
turn rows into what the caller knows. A row keeps its meaning, removals and replacements included,
until an index that can be merged is merged.
Every index gives exactly the matches of `index.algorithms.scan`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from itertools import pairwise
from typing import TYPE_CHECKING, ClassVar, Self

from index.columns import Matches
from index.model import Instant, Operator, Subscription

if TYPE_CHECKING:
    from index.events import Events
    from index.statistics import EventStatistics
    from index.vocabulary import Vocabulary


class MatchIndex(ABC):
    """Finds, for each event of a batch, the subscriptions whose filter is TRUE of it.

    name        what the registry and the settings call it
    paper       the publication it follows, or '' if none
    summary     one sentence for a listing
    operators   what it can file; a predicate of another operator alone is left to the companion
    companion   name of the algorithm that takes the filters this one cannot, or None
    vocabulary  the numbering of attributes and operand strings; events must be decoded with it
    """

    name: ClassVar[str]
    paper: ClassVar[str]
    summary: ClassVar[str]
    operators: ClassVar[frozenset[Operator]] = frozenset(Operator)
    companion: ClassVar[str | None] = None
    vocabulary: Vocabulary

    @classmethod
    @abstractmethod
    def build(
        cls, subscriptions: Iterable[Subscription], statistics: EventStatistics | None = None
    ) -> Self:
        """An index of these subscriptions; of two with one id the later stands.

        `statistics` of past events tell which predicates are selective; without them the index
        ranks predicates by operator. They change speed only.
        """

    @abstractmethod
    def add(self, subscription: Subscription) -> None:
        """Take in one subscription; one with the same id is replaced."""

    @abstractmethod
    def remove(self, subscription_id: str) -> bool:
        """Forget one subscription; False if there was none."""

    @abstractmethod
    def match(self, events: Events, now: Instant) -> Matches:
        """The rows whose filter is TRUE of each event, ascending, where NOW() is `now`."""

    @abstractmethod
    def stats(self) -> dict[str, int | float]:
        """Counts of what the structure holds and did; `subscription_count` is always there."""

    @abstractmethod
    def check(self) -> None:
        """Assert every invariant of the layout; for tests and for doubt, not for production."""

    @abstractmethod
    def ids_of(self, rows: Iterable[int]) -> list[str]:
        """Subscription ids of rows, in the order of the rows."""

    @abstractmethod
    def attachments_of(self, rows: Iterable[int]) -> list[bytes]:
        """Attachments of rows, in the order of the rows."""

    @abstractmethod
    def __len__(self) -> int:
        """Number of subscriptions."""

    def filing_of(self, subscription_id: str) -> str:
        """Where the index keeps a subscription, in words, for `explain`."""
        return f"{self.name} tests {subscription_id!r} on every event"

    def ids_by_event(self, matches: Matches) -> list[list[str]]:
        """Matches as one list of subscription ids per event: for tests, commands and examples."""
        ids = self.ids_of(matches.row.tolist())
        return [ids[start:stop] for start, stop in pairwise(matches.start.tolist())]

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {len(self)} subscriptions>"
