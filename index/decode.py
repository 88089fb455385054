"""The plain decoder: the bytes of one event to nested Python values, and the way to an attribute.

This is docs/semantics.md section 1 written down as simply as it goes; the byte-level kernel in
`index.events` is tested against it and falls back to it.

An event is refused with one of EVENT_ERROR_REASONS. When several apply, only the fact of the
refusal is promised, not which reason is named. This decoder names the first of: too_large,
invalid_utf8; then what a parse from left to right meets first of invalid_json, invalid_number and
duplicate_key (where its object ends); then too_deep, too_many_values, lone_surrogate and
not_an_object.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import NoReturn

from index.errors import EventError
from index.limits import LIMITS, Limits
from index.model import Path
from index.numbers import parse_number


def parse_event(payload: bytes, limits: Limits = LIMITS) -> dict[str, object]:
    """The event in a payload; EventError if it is a dead letter.

    Values are dict, list, str, bool, None, int within int64, and float for any other number.
    """
    root = parse_value(payload, limits)
    if not isinstance(root, dict):
        raise EventError("not_an_object", f"the root is {_name_of(root)}")
    return root


def parse_value(payload: bytes, limits: Limits = LIMITS, depth: int = 0) -> object:
    """Any JSON value in a payload, held to the limits of events.

    `depth` objects are around the value already, as around the data of a CloudEvent.
    """
    if len(payload) > limits.event_bytes:
        raise EventError("too_large", f"{len(payload)} bytes; the limit is {limits.event_bytes}")
    try:
        value: object = _DECODER.decode(payload.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise EventError("invalid_utf8", f"at byte {error.start}: {error.reason}") from None
    except json.JSONDecodeError as error:
        raise EventError("invalid_json", f"at character {error.pos}: {error.msg}") from None
    except RecursionError:
        raise EventError("too_deep", _too_deep(limits)) from None
    check_value(value, limits, depth)
    return value


def check_value(value: object, limits: Limits = LIMITS, depth: int = 0) -> None:
    """Refuse a decoded value that is too deep, has too many leaves, or a lone surrogate."""
    leaf_count = 0
    strings: list[str] = []
    stack: list[tuple[object, int]] = [(value, depth + 1)]
    while stack:
        node, level = stack.pop()
        if not isinstance(node, dict | list):
            leaf_count += 1
            if isinstance(node, str):
                strings.append(node)
            continue
        if level > limits.event_depth:
            raise EventError("too_deep", _too_deep(limits))
        if isinstance(node, dict):
            strings.extend(node)
        children = node.values() if isinstance(node, dict) else node
        stack.extend((child, level + 1) for child in children)
    if leaf_count > limits.event_values:
        raise EventError("too_many_values", f"{leaf_count}; the limit is {limits.event_values}")
    for string in strings:
        if not string.isascii() and any("\ud800" <= letter <= "\udfff" for letter in string):
            raise EventError("lone_surrogate", f"in {string[:40]!a}")


def values_at(root: dict[str, object], path: Path) -> tuple[bool, list[object], bool]:
    """An attribute of an event: (is it present, its values, did they come out of an array).

    A path steps through arrays, nested arrays flatten, a nested object is no value of its own, and
    an object that is an element of an array is one: it stays a dict.
    """
    values: list[object] = []
    present = array = False
    for node, through_array in _ends_of(root, path):
        if isinstance(node, list):
            present = array = True
            values.extend(flatten(node))
        elif not isinstance(node, dict):
            present = True
            array = array or through_array
            values.append(node)
    return present, values, array


def exists(root: dict[str, object], path: Path) -> bool:
    """Has the event this attribute or any attribute below it?"""
    return any(has_attribute(node) for node, _ in _ends_of(root, path))


def has_attribute(node: object) -> bool:
    """Does a member with this value add an attribute? All do but an object without any."""
    if isinstance(node, dict):
        return any(has_attribute(child) for child in node.values())
    return True


def elements_at(root: dict[str, object], path: Path) -> tuple[bool, list[dict[str, object]]]:
    """What `path[...]` ranges over: (is the path there, its elements seen as events).

    A lone object is one element, unless it adds no attribute and so is not there. An element that
    is no object has no attributes, as the empty object has none.
    """
    elements: list[dict[str, object]] = []
    present = False
    for node, _ in _ends_of(root, path):
        if not has_attribute(node):
            continue
        present = True
        for element in flatten(node) if isinstance(node, list) else (node,):
            elements.append(element if isinstance(element, dict) else {})
    return present, elements


def flatten(array: list[object]) -> Iterator[object]:
    """The elements of an array in order, those of nested arrays in their place."""
    for element in array:
        if isinstance(element, list):
            yield from flatten(element)
        else:
            yield element


def _ends_of(root: dict[str, object], path: Path) -> Iterator[tuple[object, bool]]:
    """Every member that the path leads to, and whether the way went through an array."""
    ends: list[tuple[object, bool]] = [(root, False)]
    for name in path:
        following: list[tuple[object, bool]] = []
        for node, through_array in ends:
            if isinstance(node, list):
                following.extend(
                    (element[name], True)
                    for element in flatten(node)
                    if isinstance(element, dict) and name in element
                )
            elif isinstance(node, dict) and name in node:
                following.append((node[name], through_array))
        ends = following
    return iter(ends)


def _number(token: str) -> int | float:
    try:
        return parse_number(token)
    except OverflowError:
        raise EventError("invalid_number", f"{token[:40]} is beyond a double") from None


def _no_constant(token: str) -> NoReturn:
    raise EventError("invalid_number", f"{token} is not JSON")


def _object(pairs: list[tuple[str, object]]) -> dict[str, object]:
    members = dict(pairs)
    if len(members) < len(pairs):
        raise EventError("duplicate_key", f"{_repeated(pairs)[:40]!a} twice in one object")
    return members


def _repeated(pairs: list[tuple[str, object]]) -> str:
    seen: set[str] = set()
    for name, _ in pairs:
        if name in seen:
            return name
        seen.add(name)
    raise AssertionError("no name is repeated")


def _too_deep(limits: Limits) -> str:
    return f"nested deeper than {limits.event_depth}"


def _name_of(value: object) -> str:
    if isinstance(value, bool):
        return "a boolean"
    names = {list: "an array", str: "a string", type(None): "null"}
    return names.get(type(value), "a number")


_DECODER = json.JSONDecoder(
    object_pairs_hook=_object,
    parse_float=_number,
    parse_int=_number,
    parse_constant=_no_constant,
)
