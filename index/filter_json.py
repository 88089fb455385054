"""The JSON form of filters: `parse_json` reads decoded JSON, `to_json` writes it.

    {"and": [{"attr": "dest", "op": "eq", "value": "SFO"},
             {"not": {"attr": "delay", "op": "lt", "value": 60}}]}

The tree is walked by hand, because bulk registration reads filters by the hundred thousand.
Refusals carry a JSON pointer, put together only when one is raised. Decode bytes with
`index.strict_json.loads_json`, which keeps numbers as the contract has them.
"""

from __future__ import annotations

import json
from typing import Any

from index.errors import FilterError
from index.json_operands import path_of, scalar, valid_text
from index.json_refusals import (
    described,
    not_a_node,
    under,
    unknown_operator,
    wrong_keys,
    wrong_type,
)
from index.json_writer import to_json
from index.limits import LIMITS, Limits
from index.model import (
    And,
    Constant,
    Element,
    Filter,
    IsNotTrue,
    Not,
    Operand,
    Operator,
    Or,
    Path,
    Predicate,
    Quantifier,
    Scalar,
)
from index.strict_json import loads_json
from index.text_writer import NEGATED_BEHIND_PATH
from index.validation import (
    NEEDLE_OPERATORS,
    at_least,
    check_options,
    checked,
    too_deep,
    too_many_predicates,
    too_many_values,
)

__all__ = ["check_size", "loads_json", "parse_json", "to_json"]

_OPERATORS = {operator.value: operator for operator in Operator}
_LIST_OPERATORS = (Operator.IN, Operator.NOT_IN)
_BETWEEN_OPERATORS = (Operator.BETWEEN, Operator.NOT_BETWEEN)
_WITHOUT_VALUE = (Operator.EXISTS, Operator.MISSING, Operator.IS_NULL)
_QUANTIFIERS = {"any": Quantifier.ANY, "all": Quantifier.ALL}
_NEGATED_BEHIND_PATH = {operator.value for operator in NEGATED_BEHIND_PATH}
_OPTIONS = ("nocase", "quant", "escape")


def parse_json(tree: object, limits: Limits = LIMITS) -> Filter:
    """The filter that decoded JSON denotes; FilterError with a pointer if it denotes none.

    Numbers must come from a decoder that keeps integers and doubles apart. Bytes are not counted
    here, because the JSON form of a text within its limit may exceed it: see `check_size`.

    >>> parse_json({"attr": "delay", "op": "gt", "value": 60}).operand
    60
    """
    try:
        return _Reader(limits).filter(tree, "", 0)
    except FilterError as error:
        error.pointer = (error.pointer or "") + (f"/{error.part}" if error.part else "")
        raise


def check_size(tree: object, limits: Limits = LIMITS) -> None:
    """Refuse a filter that `parse_json` took, if its compact JSON has more bytes than the limit."""
    # parse_json has refused what is nested too deeply to write.
    size = len(json.dumps(tree, ensure_ascii=False, separators=(",", ":")).encode())
    if size > limits.filter_bytes:
        raise FilterError(
            "too_large",
            f"the filter has {size} bytes; at most {limits.filter_bytes} are accepted",
            hint="split it over several subscriptions",
            pointer="",
        )


class _Reader:
    """Reads one tree, counting what the limits bound.

    Nesting is counted as the text form would write it: NOT, IS NOT TRUE, ATLEAST, [ ], and each
    AND or OR that needs parentheses in its place; so either form of a filter is within the limit
    if the other one is.
    """

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.predicates_left = limits.filter_predicates

    def filter(self, node: object, place: str, depth: int) -> Filter:
        """The filter of one node; place is the connective it stands in, '' if it needs no care."""
        if isinstance(node, dict):
            if "op" in node:
                return self.leaf(node, depth)
            if "atleast" in node:
                return self.at_least(node, depth)
            if len(node) == 1:
                ((key, value),) = node.items()
                if key == "and" or key == "or":
                    children = self.children(key, value, place, depth)
                    return And(children) if key == "and" else Or(children)
                if key == "not":
                    deeper = depth + 1 - _is_negated_behind_path(value)
                    return Not(self.step("not", value, "not", deeper))
                if key == "isnottrue":
                    return IsNotTrue(self.step("isnottrue", value, "", depth + 1))
            raise not_a_node(node)
        if isinstance(node, bool):
            return Constant(node)
        raise FilterError(
            "invalid_node",
            f"{described(node)} is no filter",
            hint="a filter is true, false or an object such as "
            '{"attr": "a", "op": "eq", "value": 1}',
        )

    def step(self, key: str, value: object, place: str, depth: int) -> Filter:
        """The child under a key."""
        try:
            if depth > self.limits.filter_nesting:
                raise too_deep(self.limits)
            return self.filter(value, place, depth)
        except FilterError as error:
            raise under(f"/{key}", error) from None

    def children(self, key: str, value: object, place: str, depth: int) -> tuple[Filter, ...]:
        """The children of and, or, of."""
        if not isinstance(value, list):
            raise wrong_type(key, value, "an array of filters")
        if not value:
            raise FilterError(
                "empty_list", f"{key} has no members", hint="write true or false", part=key
            )
        if place == key or (place == "and" and key == "or") or place == "not":
            depth += 1
            if depth > self.limits.filter_nesting:
                raise too_deep(self.limits)
        inner_place = "" if key == "of" else key
        children = []
        try:
            for child in value:
                children.append(self.filter(child, inner_place, depth))
        except FilterError as error:
            raise under(f"/{key}/{len(children)}", error) from None
        return tuple(children)

    def at_least(self, node: dict[str, Any], depth: int) -> Filter:
        """{"atleast": 2, "of": [...]}."""
        if len(node) != 2 or "of" not in node:
            raise wrong_keys(node, ("atleast", "of"), ())
        if depth >= self.limits.filter_nesting:
            raise too_deep(self.limits)
        return at_least(node["atleast"], self.children("of", node["of"], "", depth + 1))

    def leaf(self, node: dict[str, Any], depth: int) -> Filter:
        """A predicate, or the filter of an array's elements."""
        name = node["op"]
        if name == "element":
            if len(node) != 3 or "attr" not in node or "where" not in node:
                raise wrong_keys(node, ("attr", "op", "where"), ())
            return Element(path_of(node["attr"]), self.step("where", node["where"], "", depth + 1))
        operator = _OPERATORS.get(name) if isinstance(name, str) else None
        if operator is None:
            raise unknown_operator(name)
        self.predicates_left -= 1
        if self.predicates_left < 0:
            raise too_many_predicates(self.limits)
        try:
            path = path_of(node["attr"])
            if operator in _WITHOUT_VALUE:
                operand, taken = None, 2
            else:
                operand, taken = self.operand(operator, node["value"]), 3
        except KeyError:
            raise wrong_keys(node, _keys_of(operator), _OPTIONS) from None
        if len(node) == taken:
            return checked(Predicate(path, operator, operand))
        return checked(_with_options(node, operator, path, operand))

    def operand(self, operator: Operator, value: object) -> Operand:
        """The operand in the model's shape for this operator."""
        if operator in NEEDLE_OPERATORS:
            return self.values(value) if isinstance(value, list) else (scalar(value, "value"),)
        if operator in _LIST_OPERATORS:
            if not isinstance(value, list):
                raise wrong_type("value", value, "an array of values")
            return self.values(value)
        if operator in _BETWEEN_OPERATORS:
            if not isinstance(value, list) or len(value) != 2:
                raise wrong_type("value", value, "an array of two bounds")
            return scalar(value[0], "value/0"), scalar(value[1], "value/1")
        return scalar(value, "value")

    def values(self, values: list[object]) -> tuple[Scalar, ...]:
        """The members of a list, no more than the limit."""
        if len(values) > self.limits.filter_list_values:
            raise too_many_values(self.limits)
        return tuple([scalar(value, f"value/{i}") for i, value in enumerate(values)])


def _is_negated_behind_path(node: object) -> bool:
    """Whether the text form writes the NOT of this node behind the path, where it nests nothing."""
    if not isinstance(node, dict):
        return False
    name = node.get("op")
    return isinstance(name, str) and name in _NEGATED_BEHIND_PATH


def _with_options(
    node: dict[str, Any], operator: Operator, path: Path, operand: Operand
) -> Predicate:
    """The predicate of a node with more keys than it must have."""
    if not node.keys() <= {*_keys_of(operator), *_OPTIONS}:
        raise wrong_keys(node, _keys_of(operator), _OPTIONS)
    check_options(operator, "nocase" in node, "escape" in node, "quant" in node)
    nocase, quantifier, escape = node.get("nocase", False), None, node.get("escape")
    if not isinstance(nocase, bool):
        raise wrong_type("nocase", nocase, "true or false")
    if "quant" in node:
        name = node["quant"]
        quantifier = _QUANTIFIERS.get(name) if isinstance(name, str) else None
        if quantifier is None:
            raise FilterError(
                "invalid_quantifier",
                f"{described(name)} is no quantifier",
                hint='write "any" or "all"',
                part="quant",
            )
    if "escape" in node:
        if not isinstance(escape, str):
            raise wrong_type("escape", escape, "a string")
        valid_text(escape, "escape")
    return Predicate(path, operator, operand, nocase, quantifier, escape)


def _keys_of(operator: Operator) -> tuple[str, ...]:
    """The keys that a predicate of this operator must have."""
    return ("attr", "op") if operator in _WITHOUT_VALUE else ("attr", "op", "value")
