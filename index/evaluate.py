"""The truth of a filter on an event: three-valued, slow, obvious and complete. The oracle.

True, False, or None for UNKNOWN. Section numbers are those of docs/semantics.md. Nothing here is
clever, so that it can be held against the text; `index.program` is the fast twin.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeGuard, TypeVar, cast

from index.casefold import fold
from index.decode import elements_at, exists, values_at
from index.instants import NS_PER_SECOND, parse_instant
from index.model import (
    POSITIVE_FORM,
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
    Predicate,
    Quantifier,
    Scalar,
)
from index.patterns import compile_regex, parse_address, parse_network

Truth = bool | None
Scalars = tuple[Scalar, ...]
Ordered = TypeVar("Ordered", float, str, Instant)


def truth(node: Filter, event: dict[str, object], now: Instant) -> Truth:
    """TRUE, FALSE or UNKNOWN (None) of a filter on an event, where NOW() is `now` (section 2)."""
    match node:
        case Predicate():
            return predicate_truth(node, event, now)
        case Constant(value):
            return value
        case And(children):
            return conjunction(truth(child, event, now) for child in children)
        case Or(children):
            return disjunction(truth(child, event, now) for child in children)
        case Not(child):
            return negation(truth(child, event, now))
        case IsNotTrue(child):
            return truth(child, event, now) is not True
        case AtLeast(count, children):
            return at_least(count, [truth(child, event, now) for child in children])
        case Element(path, where):
            present, elements = elements_at(event, path)
            if not present:
                return None
            return disjunction(truth(where, element, now) for element in elements)


def conjunction(truths: Iterable[Truth]) -> Truth:
    """Kleene's AND: FALSE if any is, else UNKNOWN if any is, else TRUE; TRUE of nothing."""
    result: Truth = True
    for one in truths:
        if one is False:
            return False
        if one is None:
            result = None
    return result


def disjunction(truths: Iterable[Truth]) -> Truth:
    """Kleene's OR: TRUE if any is, else UNKNOWN if any is, else FALSE; FALSE of nothing."""
    result: Truth = False
    for one in truths:
        if one is True:
            return True
        if one is None:
            result = None
    return result


def negation(one: Truth) -> Truth:
    """Kleene's NOT: NOT UNKNOWN is UNKNOWN."""
    return None if one is None else not one


def at_least(count: int, truths: list[Truth]) -> Truth:
    """ATLEAST count OF truths (section 2)."""
    true_count = sum(one is True for one in truths)
    unknown_count = sum(one is None for one in truths)
    if true_count >= count:
        return True
    return False if true_count + unknown_count < count else None


def predicate_truth(predicate: Predicate, event: dict[str, object], now: Instant) -> Truth:
    """A predicate on an event: presence, then the elements, then the quantifier (section 2)."""
    if predicate.operator is Operator.EXISTS:
        return exists(event, predicate.path)
    if predicate.operator is Operator.MISSING:
        return not exists(event, predicate.path)
    present, values, _ = values_at(event, predicate.path)
    return values_truth(predicate, values, now) if present else None


def values_truth(predicate: Predicate, values: Iterable[object], now: Instant) -> Truth:
    """A predicate on the values of a present attribute; a scalar is one value.

    Without a quantifier a positive operator asks for some value, and a negated one is the NOT of
    its positive form. Under a quantifier the negation is each value's own.
    """
    positive = POSITIVE_FORM.get(predicate.operator, predicate.operator)
    negated = positive is not predicate.operator
    truths = (value_truth(positive, predicate, value, now) for value in values)
    if predicate.quantifier is None:
        some = disjunction(truths)
        return negation(some) if negated else some
    if negated:
        truths = (negation(one) for one in truths)
    return disjunction(truths) if predicate.quantifier is Quantifier.ANY else conjunction(truths)


def value_truth(operator: Operator, predicate: Predicate, value: object, now: Instant) -> Truth:
    """A positive operator on one value: never an exception (sections 1 and 3)."""
    operand, nocase = predicate.operand, predicate.nocase
    match operator:
        case Operator.EQ:
            return equal(value, cast(Scalar, operand), nocase, now)
        case Operator.IN:
            return any(equal(value, one, nocase, now) for one in cast(Scalars, operand))
        case Operator.LT | Operator.LE | Operator.GT | Operator.GE:
            return in_order(operator, value, cast(Scalar, operand), now)
        case Operator.BETWEEN:
            low, high = cast(Scalars, operand)
            above = in_order(Operator.GE, value, low, now)
            return conjunction((above, in_order(Operator.LE, value, high, now)))
        case Operator.IS_NULL:
            return value is None
        case _ if not isinstance(value, str):
            return None
        case Operator.LIKE:
            return is_like(value, cast(str, operand), predicate.escape, nocase)
        case Operator.PREFIX | Operator.SUFFIX | Operator.CONTAINS:
            needles = cast(tuple[str, ...], operand)
            return any(has_needle(operator, value, needle, nocase) for needle in needles)
        case Operator.REGEX:
            return compile_regex(cast(str, operand), nocase).search(value) is not None
        case Operator.CIDR:
            address = parse_address(value)
            return None if address is None else address in parse_network(cast(str, operand))
    raise AssertionError(f"no rule for {operator}")


def equal(value: object, operand: Scalar, nocase: bool, now: Instant) -> bool:
    """Equality: FALSE across types; numbers by value, whatever their kind (section 1)."""
    match operand:
        case Instant() | Now():
            return instant_of(value) == moment(operand, now)
        case bool():
            return value is operand
        case str():
            if not isinstance(value, str):
                return False
            return fold(value) == fold(operand) if nocase else value == operand
        case _:
            return is_number(value) and value == operand


def in_order(operator: Operator, value: object, operand: Scalar, now: Instant) -> Truth:
    """< <= > >=: UNKNOWN across types; strings by code point, numbers exactly (section 1)."""
    match operand:
        case Instant() | Now():
            instant = instant_of(value)
            return None if instant is None else compare(operator, instant, moment(operand, now))
        case str():
            return compare(operator, value, operand) if isinstance(value, str) else None
        case _:
            return compare(operator, value, operand) if is_number(value) else None


def compare(operator: Operator, left: Ordered, right: Ordered) -> bool:
    """Python's order of two ints or floats (exact), two strings (by code point), two instants."""
    match operator:
        case Operator.LT:
            return left < right
        case Operator.LE:
            return left <= right
        case Operator.GT:
            return left > right
        case _:
            return left >= right


def has_needle(operator: Operator, value: str, needle: str, nocase: bool) -> bool:
    """STARTS WITH, ENDS WITH, CONTAINS of one needle; the empty one is in every string."""
    if nocase:
        value, needle = fold(value), fold(needle)
    match operator:
        case Operator.PREFIX:
            return value.startswith(needle)
        case Operator.SUFFIX:
            return value.endswith(needle)
        case _:
            return needle in value


def is_like(value: str, pattern: str, escape: str | None, nocase: bool) -> bool:
    """LIKE: the whole string, `%` any run of code points, `_` exactly one (section 3).

    On a mismatch the last `%` takes one code point more, which is enough: an earlier `%` need never
    take more than the least that lets the part after it match.
    """
    tokens = like_tokens(pattern, "\\" if escape is None else escape)
    if nocase:
        value = fold(value)
        tokens = [(kind, fold(letter)) for kind, letter in tokens]
    position = token = 0
    run_token, run_position = -1, 0
    while position < len(value):
        kind, letter = tokens[token] if token < len(tokens) else ("end", "")
        if kind == "run":
            run_token, run_position = token, position
            token += 1
        elif kind == "one" or (kind == "letter" and letter == value[position]):
            token += 1
            position += 1
        elif run_token >= 0:
            run_position += 1
            token, position = run_token + 1, run_position
        else:
            return False
    return all(kind == "run" for kind, _ in tokens[token:])


def like_tokens(pattern: str, escape: str) -> list[tuple[str, str]]:
    """A LIKE pattern as ('run', ''), ('one', '') and ('letter', code point).

    The escape is tested before the wildcards, so it may be one of them; it makes any next code
    point literal. The parser has refused a pattern that ends in it.
    """
    tokens: list[tuple[str, str]] = []
    letters = iter(pattern)
    for letter in letters:
        if escape and letter == escape:
            tokens.append(("letter", next(letters)))
        elif letter == "%":
            tokens.append(("run", ""))
        elif letter == "_":
            tokens.append(("one", ""))
        else:
            tokens.append(("letter", letter))
    return tokens


def is_number(value: object) -> TypeGuard[int | float]:
    """Python counts True as an int; the language does not."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def instant_of(value: object) -> Instant | None:
    """The instant a value spells, or None: only a string can, and only RFC 3339 does."""
    if not isinstance(value, str):
        return None
    try:
        return parse_instant(value)
    except ValueError:
        return None


def moment(operand: Instant | Now, now: Instant) -> Instant:
    """The instant an operand stands for: NOW() is the batch's pinned time (section 3)."""
    if isinstance(operand, Instant):
        return operand
    carried, nanoseconds = divmod(now.nanoseconds + operand.offset_ns, NS_PER_SECOND)
    return Instant(now.seconds + carried, nanoseconds)
