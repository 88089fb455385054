"""What a predicate may say: the one set of refusals behind the text form and the JSON form.

A refusal names the `part` of the predicate it concerns ('op', 'value', 'value/1', 'escape',
'nocase', 'quant'); each parser turns that into a position or a pointer.
"""

from __future__ import annotations

from collections.abc import Callable

from index.errors import FilterError, cut
from index.limits import Limits
from index.model import AtLeast, Filter, Instant, Now, Operator, Predicate, Scalar
from index.patterns import compile_regex, parse_network

ORDER_OPERATORS = frozenset({Operator.LT, Operator.LE, Operator.GT, Operator.GE})
NEEDLE_OPERATORS = frozenset({Operator.PREFIX, Operator.SUFFIX, Operator.CONTAINS})
NOCASE_OPERATORS = frozenset(
    {Operator.EQ, Operator.NE, Operator.IN, Operator.NOT_IN, Operator.LIKE, Operator.REGEX}
    | NEEDLE_OPERATORS
)
PRESENCE_OPERATORS = frozenset({Operator.EXISTS, Operator.MISSING})


def checked(predicate: Predicate) -> Predicate:
    """The predicate itself, or a FilterError that says why it is refused."""
    operator = predicate.operator
    if predicate.nocase or predicate.escape is not None or predicate.quantifier is not None:
        check_options(
            operator,
            predicate.nocase,
            predicate.escape is not None,
            predicate.quantifier is not None,
        )
    check = _CHECKS.get(operator)
    if check is not None:
        check(predicate)
    return predicate


def check_options(operator: Operator, nocase: bool, escape: bool, quantifier: bool) -> None:
    """Refuse options that mean nothing to an operator; the flags tell which ones are written."""
    if nocase and operator not in NOCASE_OPERATORS:
        raise FilterError(
            "invalid_nocase",
            f"NOCASE has no meaning for {operator.value}",
            hint="it goes with = != IN LIKE STARTS WITH, ENDS WITH, CONTAINS and MATCHES",
            part="nocase",
        )
    if escape and operator is not Operator.LIKE:
        raise FilterError(
            "invalid_escape", "only LIKE takes ESCAPE", hint="leave it out", part="escape"
        )
    if quantifier and operator in PRESENCE_OPERATORS:
        raise FilterError(
            "invalid_quantifier",
            f"ANY and ALL have no meaning for {operator.value}",
            hint="it is about the attribute as a whole",
            part="quant",
        )


def at_least(count: object, children: tuple[Filter, ...]) -> AtLeast:
    """ATLEAST count OF children, which asks for one at least and for no more than there are."""
    if isinstance(count, bool) or not isinstance(count, int) or not 1 <= count <= len(children):
        raise FilterError(
            "invalid_count",
            f"ATLEAST of {len(children)} takes a whole number from 1 to {len(children)}",
            hint="for none, leave it out; for more, name more",
            part="atleast",
        )
    return AtLeast(count, children)


def too_deep(limits: Limits) -> FilterError:
    """The refusal of a filter nested beyond the limit."""
    return FilterError(
        "too_deep",
        f"nested more than {limits.filter_nesting} deep",
        hint="flatten it, or split it over several subscriptions",
    )


def too_many_predicates(limits: Limits) -> FilterError:
    """The refusal of a filter with more predicates than the limit."""
    return FilterError(
        "too_many_predicates",
        f"more than {limits.filter_predicates} tests",
        hint="split the filter over several subscriptions, or use IN",
    )


def too_many_values(limits: Limits) -> FilterError:
    """The refusal of a list with more values than the limit."""
    return FilterError(
        "too_many_values",
        f"more than {limits.filter_list_values} values in one list",
        hint="split the list with OR",
        part="value",
    )


def type_name(value: object) -> str:
    """What users call the type of an operand."""
    match value:
        case None:
            return "NULL"
        case bool():
            return "a boolean"
        case int() | float():
            return "a number"
        case str():
            return "a string"
        case Instant() | Now():
            return "an instant"
        case _:
            return "a list"


def _check_equality(predicate: Predicate) -> None:
    if predicate.nocase and not isinstance(predicate.operand, str):
        raise _nocase_without_string()


def _check_order(predicate: Predicate) -> None:
    if isinstance(predicate.operand, bool):
        raise FilterError(
            "invalid_operand",
            "booleans have no order",
            hint="compare them with = or !=",
            part="value",
        )


def _check_members(predicate: Predicate) -> None:
    values = predicate.operand
    assert isinstance(values, tuple)
    if not values:
        raise _empty_list()
    if predicate.nocase and not any(isinstance(value, str) for value in values):
        raise _nocase_without_string()


def _check_between(predicate: Predicate) -> None:
    assert isinstance(predicate.operand, tuple)
    low, high = predicate.operand
    for place, bound in enumerate((low, high)):
        if isinstance(bound, bool):
            raise FilterError(
                "invalid_operand",
                "booleans have no order, so BETWEEN cannot take them",
                hint="compare them with = or !=",
                part=f"value/{place}",
            )
    if type_name(low) != type_name(high):
        raise FilterError(
            "mixed_bounds",
            f"the bounds of BETWEEN are {type_name(low)} and {type_name(high)}",
            hint="give both the same type",
            part="value/1",
        )
    if _is_reversed(low, high):
        raise FilterError(
            "reversed_bounds",
            "the bounds of BETWEEN are reversed, so it could never be TRUE",
            hint="write the lower bound first",
            part="value",
        )


def _is_reversed(low: Scalar, high: Scalar) -> bool:
    """Whether low exceeds high; of a constant and NOW() only the time of matching tells."""
    if isinstance(low, Now) or isinstance(high, Now):
        return isinstance(low, Now) and isinstance(high, Now) and low.offset_ns > high.offset_ns
    return bool(low > high)  # type: ignore[operator]


def _check_like(predicate: Predicate) -> None:
    pattern = _string(predicate)
    escape = "\\" if predicate.escape is None else predicate.escape
    if len(escape) > 1:
        raise FilterError(
            "invalid_escape",
            "ESCAPE takes one character, or none to switch escaping off",
            hint="write ESCAPE '!' or ESCAPE ''",
            part="escape",
        )
    if escape and escape in pattern and _ends_in_escape(pattern, escape):
        raise FilterError(
            "invalid_escape",
            f"the pattern ends in the escape character {escape}, which then escapes nothing",
            hint=f"double it, or write ESCAPE '' if {escape} stands for itself",
            part="value",
        )


def _ends_in_escape(pattern: str, escape: str) -> bool:
    """Whether the run of escapes at the end is odd, so that the last one has no character."""
    return (len(pattern) - len(pattern.rstrip(escape))) % 2 == 1


def _check_needles(predicate: Predicate) -> None:
    needles = predicate.operand
    assert isinstance(needles, tuple)
    if not needles:
        raise _empty_list()
    for place, needle in enumerate(needles):
        if not isinstance(needle, str):
            part = "value" if len(needles) == 1 else f"value/{place}"
            raise _not_a_string(predicate.operator, needle, part)


def _check_regex(predicate: Predicate) -> None:
    pattern = _string(predicate)
    try:
        compile_regex(pattern, predicate.nocase)
    except ValueError as error:
        raise FilterError(
            "invalid_regex",
            f"RE2 refuses the pattern: {cut(str(error), 200)}",
            hint="see RE2's syntax: no back-references, no look-around, a bounded size",
            part="value",
        ) from None


def _check_cidr(predicate: Predicate) -> None:
    network = _string(predicate)
    try:
        parse_network(network)
    except ValueError as error:
        raise FilterError(
            "invalid_cidr",
            f"this is no network: {error}",
            hint="write '10.0.0.0/8', '2001:db8::/32' or a single address",
            part="value",
        ) from None


def _string(predicate: Predicate) -> str:
    if not isinstance(predicate.operand, str):
        raise _not_a_string(predicate.operator, predicate.operand, "value")
    return predicate.operand


def _not_a_string(operator: Operator, value: object, part: str) -> FilterError:
    return FilterError(
        "invalid_operand",
        f"{operator.value} takes a string, not {type_name(value)}",
        hint="put it in single quotes" if isinstance(value, (int, float)) else "",
        part=part,
    )


def _nocase_without_string() -> FilterError:
    return FilterError(
        "invalid_nocase",
        "NOCASE needs a string to compare with",
        hint="leave NOCASE out",
        part="nocase",
    )


def _empty_list() -> FilterError:
    return FilterError("empty_list", "the list is empty, so it could never hold", part="value")


_CHECKS: dict[Operator, Callable[[Predicate], None]] = {
    Operator.EQ: _check_equality,
    Operator.NE: _check_equality,
    Operator.IN: _check_members,
    Operator.NOT_IN: _check_members,
    Operator.BETWEEN: _check_between,
    Operator.NOT_BETWEEN: _check_between,
    Operator.LIKE: _check_like,
    Operator.REGEX: _check_regex,
    Operator.CIDR: _check_cidr,
    **dict.fromkeys(ORDER_OPERATORS, _check_order),
    **dict.fromkeys(NEEDLE_OPERATORS, _check_needles),
}
