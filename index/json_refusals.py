"""Refusals of the JSON form: what stands there, and what the node takes instead."""

from __future__ import annotations

import json
from difflib import get_close_matches
from typing import Any

from index.errors import FilterError, cut
from index.model import Operator

_INNER_KEYS = ("and", "or", "not", "isnottrue", "atleast")
_NODE_HINT = "a filter has and, or, not, isnottrue, atleast with of, or attr with op"


def under(step: str, error: FilterError) -> FilterError:
    """The error one step further out: what it concerned lies under that step."""
    error.pointer = step + (error.pointer or "")
    return error


def not_a_node(node: dict[str, Any]) -> FilterError:
    """The refusal of an object that is neither a predicate nor a connective."""
    if "of" in node:
        return wrong_keys(node, ("atleast", "of"), ())
    if "attr" in node:
        return FilterError(
            "missing_key", "the predicate names no operator", hint='add "op", such as "op": "eq"'
        )
    for key in node:
        if key not in _INNER_KEYS:
            close = get_close_matches(str(key), (*_INNER_KEYS, "attr", "op"), n=1)
            return FilterError(
                "unknown_key",
                f"{described(key)} begins no filter",
                hint=f"did you mean {close[0]}?" if close else _NODE_HINT,
            )
    return FilterError("invalid_node", "an object that is no single filter", hint=_NODE_HINT)


def wrong_keys(
    node: dict[str, Any], required: tuple[str, ...], optional: tuple[str, ...]
) -> FilterError:
    """The refusal of the first key that should not be there, or else of the first one missing."""
    takes = ", ".join((*required, *optional))
    for key in node:
        if key not in required and key not in optional:
            return FilterError(
                "unknown_key",
                f"the key {described(key)} has no meaning here",
                hint=f"this node takes {takes}",
            )
    missing = [key for key in required if key not in node]
    return FilterError(
        "missing_key", f"the key {missing[0]} is missing", hint=f"this node takes {takes}"
    )


def wrong_type(key: str, value: object, wanted: str) -> FilterError:
    """The refusal of a value of another JSON type than its key takes."""
    code = {"value": "invalid_operand", "attr": "invalid_path"}.get(key, "invalid_node")
    return FilterError(code, f"{key} is {described(value)}, not {wanted}", part=key)


def unknown_operator(name: object) -> FilterError:
    """The refusal of an `op` that the language does not have."""
    names = (*(operator.value for operator in Operator), "element")
    close = get_close_matches(name, names, n=1) if isinstance(name, str) else []
    meant = f"did you mean {close[0]}? " if close else ""
    return FilterError(
        "unknown_operator",
        f"{described(name)} is no operator",
        hint=f"{meant}the operators are {' '.join(names)}",
        part="op",
    )


def described(value: object) -> str:
    """What stands there, in short."""
    if isinstance(value, dict):
        return "an object"
    if isinstance(value, list):
        return "an array"
    return cut(json.dumps(value, default=str))
