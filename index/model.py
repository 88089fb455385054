"""The model: operators, filters and subscriptions, as frozen values without arrays.

A filter is a tree. Its leaves are predicates on one attribute; its inner nodes are Kleene's
connectives. The tree keeps what the author wrote; `index.canonical` brings equal filters together.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

Path = tuple[str, ...]
"""The names that lead from an event's root to an attribute; a name may itself hold a dot."""


class Operator(StrEnum):
    """What a predicate asks of an attribute's value; the spelling is the one of the JSON form."""

    EQ = "eq"
    NE = "ne"
    LT = "lt"
    LE = "le"
    GT = "gt"
    GE = "ge"
    IN = "in"
    NOT_IN = "notin"
    BETWEEN = "between"
    NOT_BETWEEN = "notbetween"
    LIKE = "like"
    PREFIX = "prefix"
    SUFFIX = "suffix"
    CONTAINS = "contains"
    REGEX = "regex"
    CIDR = "cidr"
    EXISTS = "exists"
    MISSING = "missing"
    IS_NULL = "isnull"


POSITIVE_FORM = {
    Operator.NE: Operator.EQ,
    Operator.NOT_IN: Operator.IN,
    Operator.NOT_BETWEEN: Operator.BETWEEN,
}
"""The operators that are the negation of another."""


class Quantifier(StrEnum):
    """How a predicate looks at the elements of a multi-valued attribute."""

    ANY = "any"
    ALL = "all"


@dataclass(frozen=True, slots=True, order=True)
class Instant:
    """A point in time: seconds since 1970 in UTC (negative before) and nanoseconds 0..999999999."""

    seconds: int
    nanoseconds: int


@dataclass(frozen=True, slots=True)
class Now:
    """The batch's pinned time plus an offset in nanoseconds."""

    offset_ns: int = 0


Scalar = int | float | str | bool | Instant | Now
Operand = Scalar | tuple[Scalar, ...] | None


@dataclass(frozen=True, slots=True)
class Constant:
    """TRUE or FALSE."""

    value: bool


@dataclass(frozen=True, slots=True)
class Predicate:
    """A test of one attribute.

    operand   eq ne lt le gt ge: a scalar. in notin: a tuple of scalars.
              between notbetween: (low, high). like regex cidr: a string.
              prefix suffix contains: a tuple of strings, any of which may hold.
              exists missing isnull: None.
    escape    like only: None for the default backslash, '' for no escape, else one code point.
    """

    path: Path
    operator: Operator
    operand: Operand = None
    nocase: bool = False
    quantifier: Quantifier | None = None
    escape: str | None = None


@dataclass(frozen=True, slots=True)
class And:
    """Kleene's conjunction."""

    children: tuple[Filter, ...]


@dataclass(frozen=True, slots=True)
class Or:
    """Kleene's disjunction."""

    children: tuple[Filter, ...]


@dataclass(frozen=True, slots=True)
class Not:
    """Kleene's negation: UNKNOWN stays UNKNOWN."""

    child: Filter


@dataclass(frozen=True, slots=True)
class IsNotTrue:
    """TRUE unless its child is TRUE: what CloudEvents calls `not`."""

    child: Filter


@dataclass(frozen=True, slots=True)
class AtLeast:
    """TRUE if `count` of the children are TRUE, FALSE if so many cannot be any more."""

    count: int
    children: tuple[Filter, ...]


@dataclass(frozen=True, slots=True)
class Element:
    """Some element of the array at `path` satisfies `where`; its paths begin at the element."""

    path: Path
    where: Filter


Filter = Constant | Predicate | And | Or | Not | IsNotTrue | AtLeast | Element


def children_of(node: Filter) -> tuple[Filter, ...]:
    """The direct children of a node, none for a leaf; an Element has its inner filter."""
    match node:
        case And(children) | Or(children) | AtLeast(_, children):
            return children
        case Not(child) | IsNotTrue(child) | Element(_, child):
            return (child,)
        case _:
            return ()


def predicates_of(node: Filter) -> Iterator[Predicate]:
    """Every predicate of a filter in the order of writing, those inside elements included."""
    stack = [node]
    while stack:
        top = stack.pop()
        if isinstance(top, Predicate):
            yield top
        stack.extend(reversed(children_of(top)))


@dataclass(frozen=True, slots=True)
class Subscription:
    """What an index stores.

    id          unique within the index; a later add with the same id replaces the earlier one.
    filter      must be TRUE of an event to match it.
    attachment  bytes the index returns with every match and never looks into.
    """

    id: str
    filter: Filter
    attachment: bytes = b""
