from __future__ import annotations

import json
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from index.errors import FILTER_ERROR_CODES, FilterError
from index.filter_json import check_size, loads_json, parse_json, to_json
from index.language import parse_text, to_text
from index.limits import LIMITS, Limits
from index.model import Filter, Instant, Not, Now, Operator, Predicate, Quantifier
from tests.strategies import filters

A1 = {"attr": "a", "op": "eq", "value": 1}


@pytest.mark.parametrize(
    ("tree", "text"),
    [
        (True, "TRUE"),
        (False, "FALSE"),
        (A1, "a = 1"),
        ({"attr": "a.b", "op": "eq", "value": "x", "nocase": True}, "a.b = 'x' NOCASE"),
        ({"attr": ["a.b", ""], "op": "exists"}, 'EXISTS "a.b".""'),
        ({"attr": "a", "op": "missing"}, "MISSING a"),
        ({"attr": "a", "op": "isnull"}, "a IS NULL"),
        ({"attr": "a", "op": "ne", "value": 3, "quant": "any"}, "ANY a != 3"),
        ({"attr": "a", "op": "in", "value": [1, "x", True]}, "a IN (1, 'x', TRUE)"),
        ({"attr": "a", "op": "notin", "value": [1.0]}, "a NOT IN (1.0)"),
        ({"attr": "a", "op": "between", "value": [1, 2]}, "a BETWEEN 1 AND 2"),
        ({"attr": "a", "op": "notbetween", "value": [1, 2]}, "a NOT BETWEEN 1 AND 2"),
        ({"attr": "a", "op": "like", "value": "x!%", "escape": "!"}, "a LIKE 'x!%' ESCAPE '!'"),
        ({"attr": "a", "op": "prefix", "value": "x"}, "a STARTS WITH 'x'"),
        ({"attr": "a", "op": "suffix", "value": ["x", "y"]}, "a ENDS WITH ('x', 'y')"),
        ({"attr": "a", "op": "contains", "value": ""}, "a CONTAINS ''"),
        ({"attr": "a", "op": "regex", "value": "^x"}, "a MATCHES '^x'"),
        ({"attr": "a", "op": "cidr", "value": "10.0.0.0/8"}, "a IN CIDR '10.0.0.0/8'"),
        ({"attr": "a", "op": "lt", "value": {"timestamp": "1970-01-01T00:00:00Z"}},
         "a < TIMESTAMP '1970-01-01T00:00:00Z'"),
        ({"attr": "a", "op": "ge", "value": {"now": "-5m"}}, "a >= NOW() - 5m"),
        ({"attr": "a", "op": "ge", "value": {"now": ""}}, "a >= NOW()"),
        ({"and": [A1, {"or": [A1, {"not": A1}]}]}, "a = 1 AND (a = 1 OR NOT a = 1)"),
        ({"isnottrue": A1}, "(a = 1) IS NOT TRUE"),
        ({"atleast": 1, "of": [A1, True]}, "ATLEAST 1 OF (a = 1, TRUE)"),
        ({"attr": "i", "op": "element", "where": A1}, "i[a = 1]"),
    ],
)  # fmt: skip
def test_each_form_has_its_twin(tree: object, text: str) -> None:
    assert to_text(parse_json(tree)) == text
    assert to_json(parse_text(text)) == tree
    assert json.dumps(to_json(parse_text(text))) == json.dumps(tree)


def test_other_spellings_of_the_same() -> None:
    assert parse_json({"attr": ["a", "b"], "op": "exists"}).path == ("a", "b")  # type: ignore[union-attr]
    now = {"attr": "a", "op": "lt", "value": {"now": "+60s"}}
    assert parse_json(now) == Predicate(("a",), Operator.LT, Now(60_000_000_000))
    assert parse_json({**A1, "value": "x", "nocase": False}) == Predicate(("a",), Operator.EQ, "x")
    assert to_text(parse_json({"and": [A1]})) == "a = 1"
    assert type(parse_json({**A1, "value": 2**63}).operand) is float  # type: ignore[union-attr]


REFUSALS: list[tuple[Any, str, str]] = [
    # tree, code, pointer
    (None, "invalid_node", ""),
    ("a = 1", "invalid_node", ""),
    ([A1], "invalid_node", ""),
    ({}, "invalid_node", ""),
    ({"nand": [A1]}, "unknown_key", ""),
    ({"and": [A1], "or": [A1]}, "invalid_node", ""),
    ({"and": [A1], "comment": "x"}, "unknown_key", ""),
    ({"and": A1}, "invalid_node", "/and"),
    ({"and": []}, "empty_list", "/and"),
    ({"or": [A1, {"and": [A1, 5]}]}, "invalid_node", "/or/1/and/1"),
    ({"not": {"isnottrue": None}}, "invalid_node", "/not/isnottrue"),
    ({"atleast": 1}, "missing_key", ""),
    ({"of": [A1]}, "missing_key", ""),
    ({"atleast": 1, "of": [A1], "x": 1}, "unknown_key", ""),
    ({"atleast": 0, "of": [A1]}, "invalid_count", "/atleast"),
    ({"atleast": 2, "of": [A1]}, "invalid_count", "/atleast"),
    ({"atleast": True, "of": [A1]}, "invalid_count", "/atleast"),
    ({"atleast": 1.0, "of": [A1]}, "invalid_count", "/atleast"),
    ({"atleast": 1, "of": []}, "empty_list", "/of"),
    ({"attr": "a", "value": 1}, "missing_key", ""),
    ({"op": "eq", "value": 1}, "missing_key", ""),
    ({"attr": "a", "op": "eq"}, "missing_key", ""),
    ({**A1, "comment": "x"}, "unknown_key", ""),
    ({"attr": "a", "op": "exists", "value": 1}, "unknown_key", ""),
    ({"attr": "a", "op": "isnull", "value": None}, "unknown_key", ""),
    ({"attr": "a", "op": "element", "where": A1, "quant": "any"}, "unknown_key", ""),
    ({"attr": "a", "op": "element"}, "missing_key", ""),
    ({"attr": "a", "op": "element", "where": {**A1, "op": "x"}}, "unknown_operator", "/where/op"),
    ({**A1, "op": "EQ"}, "unknown_operator", "/op"),
    ({**A1, "op": ["eq"]}, "unknown_operator", "/op"),
    ({"not": {**A1, "op": ["eq"]}}, "unknown_operator", "/not/op"),
    ({**A1, "attr": ""}, "invalid_path", "/attr"),
    ({**A1, "attr": "a..b"}, "invalid_path", "/attr"),
    ({**A1, "attr": "." * 300}, "invalid_path", "/attr"),
    ({**A1, "attr": []}, "invalid_path", "/attr"),
    ({**A1, "attr": ["a", 0]}, "invalid_path", "/attr"),
    ({**A1, "attr": 5}, "invalid_path", "/attr"),
    ({**A1, "attr": "\ud800"}, "invalid_unicode", "/attr"),
    ({**A1, "attr": ["a", "\ud800"]}, "invalid_unicode", "/attr/1"),
    ({**A1, "value": "\udfff"}, "invalid_unicode", "/value"),
    ({**A1, "value": None}, "null_operand", "/value"),
    ({**A1, "op": "in", "value": [1, None]}, "null_operand", "/value/1"),
    ({**A1, "value": [1]}, "invalid_operand", "/value"),
    ({**A1, "value": {"time": "x"}}, "invalid_operand", "/value"),
    ({**A1, "value": {"now": 5}}, "invalid_operand", "/value"),
    ({**A1, "op": "in", "value": 1}, "invalid_operand", "/value"),
    ({**A1, "op": "in", "value": []}, "empty_list", "/value"),
    ({**A1, "op": "prefix", "value": []}, "empty_list", "/value"),
    ({**A1, "op": "prefix", "value": ["x", 1]}, "invalid_operand", "/value/1"),
    ({**A1, "op": "contains", "value": 1}, "invalid_operand", "/value"),
    ({**A1, "op": "like", "value": 1}, "invalid_operand", "/value"),
    ({**A1, "op": "gt", "value": True}, "invalid_operand", "/value"),
    ({**A1, "op": "between", "value": [1, 2, 3]}, "invalid_operand", "/value"),
    ({**A1, "op": "between", "value": [False, True]}, "invalid_operand", "/value/0"),
    ({**A1, "op": "between", "value": [1, "x"]}, "mixed_bounds", "/value/1"),
    ({**A1, "op": "between", "value": [2, 1]}, "reversed_bounds", "/value"),
    ({**A1, "nocase": True}, "invalid_nocase", "/nocase"),
    ({**A1, "nocase": "yes"}, "invalid_node", "/nocase"),
    ({**A1, "op": "lt", "value": "x", "nocase": False}, "invalid_nocase", "/nocase"),
    ({**A1, "quant": "some"}, "invalid_quantifier", "/quant"),
    ({"attr": "a", "op": "exists", "quant": "any"}, "invalid_quantifier", "/quant"),
    ({**A1, "escape": "!"}, "invalid_escape", "/escape"),
    ({**A1, "op": "like", "value": "x", "escape": "ab"}, "invalid_escape", "/escape"),
    ({**A1, "op": "like", "value": "x", "escape": None}, "invalid_node", "/escape"),
    ({**A1, "op": "like", "value": "x\\"}, "invalid_escape", "/value"),
    ({**A1, "op": "regex", "value": "("}, "invalid_regex", "/value"),
    ({**A1, "op": "cidr", "value": "10.0.0.0/33"}, "invalid_cidr", "/value"),
    ({**A1, "value": {"timestamp": "2020-01-01"}}, "invalid_timestamp", "/value/timestamp"),
    ({**A1, "op": "in", "value": [{"now": "5x"}]}, "invalid_duration", "/value/0/now"),
    ({**A1, "value": {"now": "+-5m"}}, "invalid_duration", "/value/now"),
    ({**A1, "value": float("nan")}, "invalid_number", "/value"),
    ({**A1, "value": 10**400}, "invalid_number", "/value"),
]


@pytest.mark.parametrize(("tree", "code", "pointer"), REFUSALS)
def test_refusals_say_what_and_where(tree: object, code: str, pointer: str) -> None:
    with pytest.raises(FilterError) as caught:
        parse_json(tree)
    assert (caught.value.code, caught.value.pointer) == (code, pointer)
    assert code in FILTER_ERROR_CODES
    assert caught.value.position is None


def refusal_code(tree: object, limits: Limits = LIMITS) -> str | None:
    try:
        parse_json(tree, limits)
    except FilterError as error:
        return error.code
    return None


def nested(key: str, depth: int) -> object:
    tree: object = A1
    for _ in range(depth):
        match key:
            case "element":
                tree = {"attr": "a", "op": "element", "where": tree}
            case "atleast":
                tree = {"atleast": 1, "of": [tree]}
            case "and":
                tree = {"and": [tree, A1]}
            case _:
                tree = {key: tree}
    return tree


@pytest.mark.parametrize("key", ["not", "isnottrue", "element", "atleast", "and"])
def test_nesting_at_the_limit_and_one_more(key: str) -> None:
    deepest = LIMITS.filter_nesting + (key == "and")  # the outermost AND needs no parentheses
    assert refusal_code(nested(key, deepest)) is None
    assert refusal_code(nested(key, deepest + 1)) == "too_deep"
    assert refusal_code(nested(key, 50_000)) == "too_deep"


def test_both_forms_reach_equally_deep() -> None:
    """AND within OR needs no parentheses, and a NOT behind the path nests nothing."""
    text = "a = 1 OR b = 1 AND (" * LIMITS.filter_nesting + "c NOT LIKE 'x'" + ")" * 32
    tree = to_json(parse_text(text))
    assert to_text(parse_json(tree)) == to_text(parse_text(text))
    assert refusal_code({"not": {"and": [tree, A1]}}) == "too_deep"


@given(filters(max_leaves=30))
def test_what_one_form_accepts_the_other_does(tree: Filter) -> None:
    limits = replace(LIMITS, filter_nesting=3)
    try:
        parse_text(to_text(tree), limits)
    except FilterError as error:
        assert error.code == "too_deep"
        assert refusal_code(to_json(tree), limits) == "too_deep"
    else:
        assert refusal_code(to_json(tree), limits) is None


def test_predicates_at_the_limit_and_one_more() -> None:
    most = [A1] * LIMITS.filter_predicates
    assert refusal_code({"or": most}) is None
    assert refusal_code({"or": [*most, A1]}) == "too_many_predicates"


@pytest.mark.parametrize("op", ["in", "notin", "contains"])
def test_list_values_at_the_limit_and_one_more(op: str) -> None:
    most = ["x"] * LIMITS.filter_list_values
    assert refusal_code({"attr": "a", "op": op, "value": most}) is None
    assert refusal_code({"attr": "a", "op": op, "value": [*most, "x"]}) == "too_many_values"


@pytest.mark.parametrize("unit", ["x", "é"])
def test_bytes_at_the_limit_and_one_more(unit: str) -> None:
    frame = len('{"attr":"a","op":"eq","value":""}')
    room = LIMITS.filter_bytes - frame
    most = unit * (room // len(unit.encode())) + "x" * (room % len(unit.encode()))
    for value, accepted in ((most, True), (most + "x", False)):
        tree = {"attr": "a", "op": "eq", "value": value}
        source = json.dumps(tree, ensure_ascii=False, separators=(",", ":"))
        assert (size_refusal(tree) is None) is accepted
        assert (decoding_refusal(source) is None) is accepted
        assert (decoding_refusal(source.encode()) is None) is accepted


def size_refusal(tree: object) -> str | None:
    try:
        check_size(tree)
    except FilterError as error:
        return error.code
    return None


def decoding_refusal(source: str | bytes) -> str | None:
    try:
        loads_json(source)
    except FilterError as error:
        return error.code
    return None


@given(filters())
def test_json_keeps_the_tree(tree: Filter) -> None:
    assert repr(parse_json(to_json(tree))) == repr(tree)
    assert repr(parse_json(loads_json(json.dumps(to_json(tree))))) == repr(tree)


KEYS = "and or not isnottrue atleast of attr op value where nocase quant escape timestamp now x"

JSON_VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.sampled_from(["a", "eq", "x%", ""]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(KEYS.split()),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@given(JSON_VALUES)
def test_any_json_is_read_or_refused_with_its_place(tree: Any) -> None:
    try:
        parsed = parse_json(tree)
    except FilterError as error:
        assert error.code in FILTER_ERROR_CODES
        assert error.pointer is not None
        at = tree
        for step in error.pointer.split("/")[1:]:
            at = at[int(step)] if isinstance(at, list) else at[step]  # the pointer leads somewhere
    else:
        assert repr(parse_json(to_json(parsed))) == repr(parsed)


def test_the_detection_rules_are_kept(shared: Path) -> None:
    with (shared / "data" / "sigma" / "rules.jsonl").open(encoding="utf-8") as lines:
        for line in islice(lines, 0, None, 4):
            tree = json.loads(line)["filter"]
            assert to_json(parse_json(tree)) == tree


def test_decoding_keeps_numbers_as_the_contract_has_them() -> None:
    decoded = loads_json(b"[9007199254740993, 9007199254740993.0, 18446744073709551615, 1e-400]")
    assert repr(decoded) == "[9007199254740993, 9007199254740992.0, 1.8446744073709552e+19, 0.0]"


@pytest.mark.parametrize(
    ("source", "code", "pointer"),
    [
        (b'{"a": 1, "b": {"c": [1, {"x/y": 1, "x/y": 1}]}}', "duplicate_key", "/b/c/1/x~1y"),
        (b'{"a": 1, "a": 1, "a": 1}', "duplicate_key", "/a"),
        (b'{"a": 1, "a": 1} 2', "invalid_json", None),
        (b'{"a": {"b": NaN}}', "invalid_number", "/a/b"),
        (b"[0, -Infinity]", "invalid_number", "/1"),
        (b"1e400", "invalid_number", ""),
        (b"[" + b"9" * 5000 + b"]", "invalid_number", "/0"),
        (b'["a\\ud800"]', "invalid_unicode", "/0"),
        (b'{"\\udc00\\ud800": 1}', "invalid_unicode", ""),
        (b'["\xff"]', "invalid_unicode", None),
        ('["\ud800"]', "invalid_unicode", None),
        (b"", "invalid_json", None),
        (b"[1,]", "invalid_json", None),
        (b'{"a" 1}', "invalid_json", None),
        (b"[01]", "invalid_json", None),
        (b"[1] 2", "invalid_json", None),
        (b'\xef\xbb\xbf"a"', "invalid_json", None),
        (b"[" * 100_000 + b"]" * 100_000, "too_deep", None),
    ],
)
def test_doubtful_json_is_refused(source: bytes | str, code: str, pointer: str | None) -> None:
    with pytest.raises(FilterError) as caught:
        loads_json(source)
    assert (caught.value.code, caught.value.pointer) == (code, pointer)
    assert (caught.value.position is not None) == (code == "invalid_json")


@given(JSON_VALUES)
def test_decoding_agrees_with_the_standard_library(value: Any) -> None:
    source = json.dumps(value)
    if "NaN" in source or "Infinity" in source:
        with pytest.raises(FilterError):
            loads_json(source)
    else:
        expected = json.loads(source)
        assert loads_json(source) == expected
        assert loads_json(source.encode()) == expected


def test_instants_and_quantifiers_are_model_values() -> None:
    tree = {"attr": "a", "op": "in", "value": [{"timestamp": "1970-01-01T00:00:01Z"}]}
    assert parse_json(tree) == Predicate(("a",), Operator.IN, (Instant(1, 0),))
    negated = {"not": {"attr": "a", "op": "like", "value": "x", "quant": "all"}}
    assert parse_json(negated) == Not(
        Predicate(("a",), Operator.LIKE, "x", quantifier=Quantifier.ALL)
    )
    assert parse_json(negated) == parse_text("ANY a NOT LIKE 'x'")
