"""Writes a filter as text: as few parentheses as keep the tree, upper-case keywords, one line.

Reading the text gives the same tree again, with one exception: the text form cannot write an AND
or OR with a single child, so that the child is written alone.
"""

from __future__ import annotations

import re

from index.instants import format_duration, format_instant
from index.lexer import RESERVED
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
    Operator,
    Or,
    Path,
    Predicate,
    Quantifier,
    Scalar,
)
from index.numbers import number_text
from index.validation import NEEDLE_OPERATORS, PRESENCE_OPERATORS

_PLAIN_NAME = re.compile(r"[A-Za-z_@$][A-Za-z0-9_@$-]*")

_WORDS = {
    Operator.EQ: "=",
    Operator.NE: "!=",
    Operator.LT: "<",
    Operator.LE: "<=",
    Operator.GT: ">",
    Operator.GE: ">=",
    Operator.IN: "IN",
    Operator.NOT_IN: "NOT IN",
    Operator.BETWEEN: "BETWEEN",
    Operator.NOT_BETWEEN: "NOT BETWEEN",
    Operator.LIKE: "LIKE",
    Operator.PREFIX: "STARTS WITH",
    Operator.SUFFIX: "ENDS WITH",
    Operator.CONTAINS: "CONTAINS",
    Operator.REGEX: "MATCHES",
    Operator.CIDR: "IN CIDR",
    Operator.EXISTS: "EXISTS",
    Operator.MISSING: "MISSING",
    Operator.IS_NULL: "IS NULL",
}
NEGATED_BEHIND_PATH = NEEDLE_OPERATORS | {
    Operator.LIKE,
    Operator.REGEX,
    Operator.CIDR,
    Operator.IS_NULL,
}
"""Operators whose NOT stands behind the path and has no operator of its own in the model."""

# How tightly the place holds what is written there.
_LOOSE, _IN_OR, _IN_AND, _TIGHT = range(4)


def to_text(node: Filter) -> str:
    """The text of a filter.

    >>> to_text(Not(Predicate(("a",), Operator.LIKE, "x%")))
    "a NOT LIKE 'x%'"
    """
    return _write(node, _LOOSE)


def _write(node: Filter, place: int) -> str:
    match node:
        case Predicate():
            return _predicate(node)
        case And(children) | Or(children) if len(children) == 1:
            return _write(children[0], place)
        case Or(children):
            return _parenthesised(
                " OR ".join([_write(c, _IN_OR) for c in children]), place > _LOOSE
            )
        case And(children):
            return _parenthesised(
                " AND ".join([_write(c, _IN_AND) for c in children]), place > _IN_OR
            )
        case Not(Predicate(operator=operator) as predicate) if operator in NEGATED_BEHIND_PATH:
            return _predicate(predicate, negated=True)
        case Not(child):
            return f"NOT {_write(child, _TIGHT)}"
        case IsNotTrue(child):
            return f"({_write(child, _LOOSE)}) IS NOT TRUE"
        case AtLeast(count, children):
            return f"ATLEAST {count} OF ({', '.join([_write(c, _LOOSE) for c in children])})"
        case Element(path, where):
            return f"{path_text(path)}[{_write(where, _LOOSE)}]"
        case Constant(value):
            return "TRUE" if value else "FALSE"


def _parenthesised(text: str, needed: bool) -> str:
    return f"({text})" if needed else text


def _predicate(predicate: Predicate, negated: bool = False) -> str:
    """A predicate, or with `negated` its negation, which an operator of NEGATED_BEHIND_PATH has."""
    operator, word = predicate.operator, _WORDS[predicate.operator]
    path = path_text(predicate.path)
    if operator in PRESENCE_OPERATORS:
        return f"{word} {path}"
    quantifier = predicate.quantifier
    if negated:
        word = "IS NOT NULL" if operator is Operator.IS_NULL else f"NOT {word}"
        if quantifier is not None:
            quantifier = Quantifier.ALL if quantifier is Quantifier.ANY else Quantifier.ANY
    pieces = [path, word]
    if quantifier is not None:
        pieces.insert(0, quantifier.name)
    if operator is not Operator.IS_NULL:
        pieces.append(_operand(predicate))
    if predicate.escape is not None:
        pieces.append(f"ESCAPE {_quoted(predicate.escape)}")
    if predicate.nocase:
        pieces.append("NOCASE")
    return " ".join(pieces)


def _operand(predicate: Predicate) -> str:
    operand = predicate.operand
    if not isinstance(operand, tuple):
        assert operand is not None
        return value_text(operand)
    values = [value_text(value) for value in operand]
    if predicate.operator in (Operator.BETWEEN, Operator.NOT_BETWEEN):
        return " AND ".join(values)
    if predicate.operator in NEEDLE_OPERATORS and len(values) == 1:
        return values[0]
    return f"({', '.join(values)})"


def value_text(value: Scalar) -> str:
    """The literal that reads back as this value."""
    match value:
        case bool():
            return "TRUE" if value else "FALSE"
        case int() | float():
            return number_text(value)
        case str():
            return _quoted(value)
        case Instant():
            return f"TIMESTAMP {_quoted(format_instant(value))}"
        case Now(0):
            return "NOW()"
        case Now(offset_ns):
            return f"NOW() {'-' if offset_ns < 0 else '+'} {format_duration(abs(offset_ns))}"


def path_text(path: Path) -> str:
    """The path with quotes around the names that need them."""
    names = [
        name if _PLAIN_NAME.fullmatch(name) else '"' + name.replace('"', '""') + '"'
        for name in path
    ]
    if names[0].upper() in RESERVED:
        names[0] = f'"{names[0]}"'
    return ".".join(names)


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
