"""Hypothesis strategies: filters of every shape, and events that nearly match them.

Random events match nothing, and then every index looks right. So an event is drawn for given
filters: its attributes are theirs, its values are their operands and the nearest things to them,
in the places where semantics bite: arrays, nested arrays, objects in arrays, null, the other type,
the other case, absence.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from hypothesis import strategies as st

from index.instants import format_instant
from index.model import (
    And,
    AtLeast,
    Constant,
    Element,
    Filter,
    Instant,
    IsNotTrue,
    Not,
    Now,
    Operand,
    Operator,
    Or,
    Path,
    Predicate,
    Quantifier,
    Scalar,
    children_of,
)
from index.patterns import parse_network

NOW = Instant(1_700_000_000, 250_000_000)
"""The pinned time of property tests."""

NAMES = ("a", "b", "c", "d.e", "Ä", "in", "not", "")
PATHS: tuple[Path, ...] = (
    ("a",),
    ("b",),
    ("c",),
    ("a", "b"),
    ("b", "a"),
    ("c", "a", "b"),
    ("d.e",),
    ("Ä", "in"),
    ("not", ""),
)
NUMBERS: tuple[int | float, ...] = (
    *(0, 1, 2, 3, 35, -1, 0.5, -0.0, 35.0, 0.1),
    *(2**53, 2**53 + 1, float(2**53), 2**63 - 1, -(2**63), float(2**63), 1e300, 5e-324),
)
STRINGS = (
    *("", "a", "A", "ab", "aB", "abc", "foo", "FOO", "a\nb", "100%", "a_b", "it's", '"', "\\"),
    *("é", "É", "σ", "ς", "Σ", "ß", "ẞ", "\u212a", "雨", "😀", "\uffff", "\x00", "ⱥ", "Ⱥ"),
    *("10.0.0.1", "010.0.0.1", "2001:db8::1", "2023-11-14T22:13:20.25Z", "1"),
)
REGEXES = ("^a.b$", "a|b", "", "[0-9]+", "(?i)foo", "é$", "^$", "x{2,3}", r"\.", "^\\pL+$")
NETWORKS = ("10.0.0.7/8", "10.0.0.1", "0.0.0.0/0", "2001:db8::/32", "::ffff:10.0.0.1/128")
ESCAPES = (None, None, "", "!", "%", "é")
FOLDABLE = {
    Operator.EQ,
    Operator.NE,
    Operator.IN,
    Operator.NOT_IN,
    Operator.LIKE,
    Operator.PREFIX,
    Operator.SUFFIX,
    Operator.CONTAINS,
    Operator.REGEX,
}
VALUELESS = {Operator.EXISTS, Operator.MISSING, Operator.IS_NULL}

numbers = st.sampled_from(NUMBERS)
strings = st.sampled_from(STRINGS) | st.text("aAb%_éÉσς雨 ", max_size=4)
instants = st.builds(
    Instant,
    st.sampled_from((NOW.seconds, NOW.seconds - 1, 0, -1)),
    st.sampled_from((0, 1, 250_000_000, 999_999_999)),
)
nows = st.builds(Now, st.sampled_from((0, 1_000_000, -300_000_000_000, 86_400_000_000_000)))
moments: st.SearchStrategy[Instant | Now] = instants | nows
scalars: st.SearchStrategy[Scalar] = numbers | strings | st.booleans() | moments
paths = st.sampled_from(PATHS)


def filters(max_leaves: int = 8) -> st.SearchStrategy[Filter]:
    """Filters that the parsers accept, of every node, operator, quantifier and NOCASE."""
    leaves: st.SearchStrategy[Filter] = predicates() | predicates() | constants
    return st.recursive(leaves, _inner_nodes, max_leaves=max_leaves)


constants = st.builds(Constant, st.booleans())


def _inner_nodes(children: st.SearchStrategy[Filter]) -> st.SearchStrategy[Filter]:
    several = st.lists(children, min_size=2, max_size=4).map(tuple)
    return st.one_of(
        st.builds(And, several),
        st.builds(Or, several),
        st.builds(Not, children),
        st.builds(IsNotTrue, children),
        several.flatmap(
            lambda nodes: st.builds(
                AtLeast, st.integers(min_value=1, max_value=len(nodes)), st.just(nodes)
            )
        ),
        st.builds(Element, paths, children),
    )


@st.composite
def predicates(draw: st.DrawFn, operators: Sequence[Operator] = tuple(Operator)) -> Predicate:
    """One predicate with an operand that its operator takes."""
    operator = draw(st.sampled_from(operators))
    operand: Operand = None if operator in VALUELESS else draw(_operands(operator))
    escape = None
    if operator is Operator.LIKE:
        escape = draw(st.sampled_from(ESCAPES))
        operand = _like_pattern(str(operand), "\\" if escape is None else escape)
    within = operand if isinstance(operand, tuple) else (operand,)
    nocase = operator in FOLDABLE and any(isinstance(one, str) for one in within)
    quantifier = None
    if operator not in (Operator.EXISTS, Operator.MISSING):
        quantifier = draw(st.sampled_from((None, None, Quantifier.ANY, Quantifier.ALL)))
    return Predicate(
        draw(paths), operator, operand, nocase and draw(st.booleans()), quantifier, escape
    )


def _operands(operator: Operator) -> st.SearchStrategy[Any]:
    match operator:
        case Operator.EQ | Operator.NE:
            return scalars
        case Operator.IN | Operator.NOT_IN:
            return st.lists(scalars, min_size=1, max_size=4).map(tuple)
        case Operator.LT | Operator.LE | Operator.GT | Operator.GE:
            return numbers | strings | moments
        case Operator.BETWEEN | Operator.NOT_BETWEEN:
            return st.one_of(
                _bounds(numbers), _bounds(strings), _bounds(instants), _bounds(nows, _offset),
                st.tuples(instants, nows), st.tuples(nows, instants),
            )  # fmt: skip
        case Operator.PREFIX | Operator.SUFFIX | Operator.CONTAINS:
            return st.lists(strings, min_size=1, max_size=3).map(tuple)
        case Operator.REGEX:
            return st.sampled_from(REGEXES)
        case Operator.CIDR:
            return st.sampled_from(NETWORKS)
        case _:
            return strings


def _bounds(
    values: st.SearchStrategy[Any], key: Callable[[Any], Any] | None = None
) -> st.SearchStrategy[tuple[Any, ...]]:
    return st.lists(values, min_size=2, max_size=2).map(lambda pair: tuple(sorted(pair, key=key)))


def _offset(now: Now) -> int:
    return now.offset_ns


def _like_pattern(text: str, escape: str) -> str:
    """The text as a LIKE pattern that does not end inside an escape."""
    if not escape:
        return text
    return text + escape if _open_escape(text, escape) else text


def _open_escape(text: str, escape: str) -> bool:
    opened = False
    for letter in text:
        opened = not opened and letter == escape
    return opened


@st.composite
def events_near(draw: st.DrawFn, *nodes: Filter) -> dict[str, Any]:
    """An event about the attributes of the filters, with values on the edge of their operands."""
    tree: dict[str, Any] = {}
    for node in nodes:
        for path, values in _wanted(node, ()):
            branch = tree
            for name in path[:-1]:
                branch = branch.setdefault(name, ([], {}))[1]
            branch.setdefault(path[-1], ([], {}))[0].extend(values)
    return _members(draw, tree)


def payload_of(event: dict[str, Any]) -> bytes:
    """The event as a publisher would send it."""
    return json.dumps(event, ensure_ascii=False).encode("utf-8")


def _wanted(node: Filter, prefix: Path) -> Iterator[tuple[Path, list[Any]]]:
    match node:
        case Predicate(path):
            yield prefix + path, near_values(node)
        case Element(path, where):
            yield prefix + path, []
            yield from _wanted(where, prefix + path)
        case _:
            for child in children_of(node):
                yield from _wanted(child, prefix)


def near_values(predicate: Predicate) -> list[Any]:
    """Values that satisfy the predicate, just miss it, or have another type."""
    operand = predicate.operand
    values: list[Any] = []
    for one in operand if isinstance(operand, tuple) else (operand,):
        match one:
            case bool():
                values += [one, not one, int(one)]
            case int() | float():
                values += [one, *_near_number(one)]
            case Instant() | Now():
                values += _near_instant(one)
            case str() if predicate.operator is Operator.CIDR:
                values += _near_network(one)
            case str():
                values += _near_string(one)
    return values


def _near_number(number: int | float) -> list[Any]:
    double = float(number)
    near = [double, math.nextafter(double, math.inf), math.nextafter(double, -math.inf)]
    if abs(number) < 2**63 - 1:
        near += [int(number), int(number) + 1, int(number) - 1]
    return [one for one in near if math.isfinite(one)] + [str(number)]


def _near_instant(operand: Instant | Now) -> list[Any]:
    moment = operand
    if isinstance(moment, Now):
        carried, nanoseconds = divmod(NOW.nanoseconds + moment.offset_ns, 1_000_000_000)
        moment = Instant(NOW.seconds + carried, nanoseconds)
    text = format_instant(moment)
    later = format_instant(Instant(moment.seconds + 1, moment.nanoseconds))
    # A space is not accepted, and a date alone is no instant.
    return [text, text.replace("T", "t"), later, text.replace("T", " "), text[:10]]


def _near_network(text: str) -> list[Any]:
    base = text.split("/")[0]
    family = parse_network(text).family
    return [base, base + "0", "0" + base, "11.0.0.1" if family == 4 else "2001:db9::", "::", 10]


def _near_string(text: str) -> list[Any]:
    expanded = text.replace("%", "xy").replace("_", "é")
    return [text, text.swapcase(), text[:-1], f"{text}x", f"x{text}", expanded, expanded + "\n"]


def _members(draw: st.DrawFn, tree: dict[str, Any]) -> dict[str, Any]:
    members = {}
    for name, (values, below) in tree.items():
        if draw(st.integers(0, 4)):  # one time in five the attribute is absent
            members[name] = _member(draw, values, below)
    return members


def _member(draw: st.DrawFn, values: list[Any], below: dict[str, Any]) -> Any:
    value = st.sampled_from(values) if values else numbers
    oddity: st.SearchStrategy[Any] = st.sampled_from((None, True, 0, "", [], {}))
    shape = draw(st.integers(0, 9))
    if below and shape < 3:
        return _members(draw, below)
    if below and shape < 7:
        count = draw(st.integers(0, 3))
        return [_members(draw, below) for _ in range(count)] + draw(st.lists(oddity, max_size=1))
    if shape in (0, 1, 2, 3, 7):
        return draw(value)
    if shape == 8:
        return draw(oddity)
    several = st.lists(value | value | oddity | st.lists(value, max_size=2), max_size=3)
    return draw(several)
