"""Writes a filter in its JSON form."""

from __future__ import annotations

from index.instants import format_duration, format_instant
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
    Or,
    Path,
    Predicate,
    Scalar,
)
from index.validation import NEEDLE_OPERATORS


def to_json(node: Filter) -> object:
    """The JSON form, in plain dicts and lists; reading it gives the same tree again.

    >>> to_json(Not(Constant(True)))
    {'not': True}
    """
    match node:
        case Predicate():
            return predicate_json(node)
        case And(children):
            return {"and": [to_json(child) for child in children]}
        case Or(children):
            return {"or": [to_json(child) for child in children]}
        case Not(child):
            return {"not": to_json(child)}
        case IsNotTrue(child):
            return {"isnottrue": to_json(child)}
        case AtLeast(count, children):
            return {"atleast": count, "of": [to_json(child) for child in children]}
        case Element(path, where):
            return {"attr": path_json(path), "op": "element", "where": to_json(where)}
        case Constant(value):
            return value


def predicate_json(predicate: Predicate) -> dict[str, object]:
    """The JSON form of one predicate."""
    written: dict[str, object] = {
        "attr": path_json(predicate.path),
        "op": predicate.operator.value,
    }
    operand = predicate.operand
    if isinstance(operand, tuple):
        values = [value_json(value) for value in operand]
        alone = len(values) == 1 and predicate.operator in NEEDLE_OPERATORS
        written["value"] = values[0] if alone else values
    elif operand is not None:
        written["value"] = value_json(operand)
    if predicate.nocase:
        written["nocase"] = True
    if predicate.quantifier is not None:
        written["quant"] = predicate.quantifier.value
    if predicate.escape is not None:
        written["escape"] = predicate.escape
    return written


def path_json(path: Path) -> object:
    """The dotted path, or the array of names where a dotted one would not read back."""
    if any(not name or "." in name for name in path):
        return list(path)
    return ".".join(path)


def value_json(value: Scalar) -> object:
    """The JSON value that reads back as this operand."""
    match value:
        case Instant():
            return {"timestamp": format_instant(value)}
        case Now(0):
            return {"now": ""}
        case Now(offset_ns):
            sign = "-" if offset_ns < 0 else "+"
            return {"now": sign + format_duration(abs(offset_ns))}
        case _:
            return value
