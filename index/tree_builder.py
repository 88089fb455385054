"""Builds the tree of a text during its parse: no syntax tree stands between tokens and filter.

lark calls the method that a rule names as soon as the rule is complete, with the rule's tokens and
what its parts returned. Tests become predicates only when path and quantifier are known.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from index.errors import FilterError
from index.instants import parse_duration, parse_instant
from index.lexer import Token, at, path_of
from index.literals import number, plain_values, scalar, unquoted
from index.model import (
    And,
    Constant,
    Element,
    Filter,
    IsNotTrue,
    Not,
    Now,
    Operand,
    Operator,
    Or,
    Path,
    Predicate,
    Quantifier,
)
from index.validation import at_least, checked

_COMPARISONS = {
    "=": Operator.EQ,
    "!=": Operator.NE,
    "<>": Operator.NE,
    "<": Operator.LT,
    "<=": Operator.LE,
    ">": Operator.GT,
    ">=": Operator.GE,
}
_NEGATED = {Operator.IN: Operator.NOT_IN, Operator.BETWEEN: Operator.NOT_BETWEEN}
_QUANTIFIERS = {"ANY": Quantifier.ANY, "ALL": Quantifier.ALL}
_OPPOSITE = {None: None, Quantifier.ANY: Quantifier.ALL, Quantifier.ALL: Quantifier.ANY}


class Test(NamedTuple):
    """What stands behind a path, until the path and its quantifier are known.

    at  the token of the operand, or of each of its members: where a refusal points.
    """

    operator: Operator
    operand: Operand
    at: tuple[Token, ...]
    nocase: Token | None = None
    escape: Token | None = None
    negated: bool = False


class TreeBuilder:
    """The methods that grammar.lark names, each headed by what it builds.

    They keep nothing between calls, so threads may share a builder.
    """

    @staticmethod
    def start(children: list[Filter]) -> Filter:
        """The whole text."""
        return children[0]

    # Connectives

    @staticmethod
    def pair(children: list[Any]) -> list[Any]:
        """`x OR y`, `x AND y`"""
        return [children[0], children[2]]

    @staticmethod
    def first(children: list[Any]) -> list[Any]:
        """The first of `x, y`"""
        return children

    @staticmethod
    def append(children: list[Any]) -> list[Any]:
        """One more: `… OR z`, `… AND z`, `…, z`"""
        members: list[Any] = children[0]
        members.append(children[2])
        return members

    @staticmethod
    def any_of(children: list[list[Filter]]) -> Filter:
        """`x OR y OR z`, complete"""
        return Or(tuple(children[0]))

    @staticmethod
    def all_of(children: list[list[Filter]]) -> Filter:
        """`x AND y AND z`, complete"""
        return And(tuple(children[0]))

    @staticmethod
    def negate(children: list[Any]) -> Filter:
        """`NOT x`"""
        return Not(children[1])

    @staticmethod
    def group(children: list[Any]) -> Filter:
        """`(x)`"""
        inner: Filter = children[1]
        return inner

    @staticmethod
    def is_not_true(children: list[Any]) -> Filter:
        """`(x) IS NOT TRUE`"""
        return IsNotTrue(children[1])

    @staticmethod
    def constant(children: list[Token]) -> Filter:
        """`TRUE`, `FALSE`"""
        return Constant(children[0].type == "TRUE")

    @staticmethod
    def at_least(children: list[Any]) -> Filter:
        """`ATLEAST 2 OF (x, y, z)`"""
        count: Token = children[1]
        alternatives: list[Filter] = children[4]
        try:
            return at_least(number(count.value, count.start_pos), tuple(alternatives))
        except FilterError as error:
            raise at(count.start_pos, error) from None

    @staticmethod
    def element(children: list[Any]) -> Filter:
        """`items[x]`"""
        return Element(path_of(children[0].value), children[2])

    # Predicates

    @staticmethod
    def presence(children: list[Token]) -> Filter:
        """`EXISTS a.b`, `MISSING a.b`"""
        return Predicate(path_of(children[1].value), Operator[children[0].type])

    @staticmethod
    def predicate(children: list[Any]) -> Filter:
        """`a = 5`"""
        return _predicate(path_of(children[0].value), children[1], None)

    @staticmethod
    def quantified(children: list[Any]) -> Filter:
        """`ANY a = 5`, `ALL a = 5`"""
        return _predicate(path_of(children[1].value), children[2], _QUANTIFIERS[children[0].type])

    # Tests

    @staticmethod
    def comparison(children: list[Token]) -> Test:
        """`= 'x'`, `>= 5`, `!= 'x' NOCASE`"""
        operator = _COMPARISONS[children[0].value]
        nocase = children[2] if len(children) == 3 else None
        return Test(operator, scalar(children[1]), (children[1],), nocase)

    @staticmethod
    def is_null(children: list[Token]) -> Test:
        """`IS NULL`, `IS NOT NULL`"""
        return Test(Operator.IS_NULL, None, (children[0],), negated=len(children) == 3)

    @staticmethod
    def negated_test(children: list[Any]) -> Test:
        """`NOT IN (1, 2)`, `NOT LIKE 'x%'`"""
        test: Test = children[1]
        return test._replace(negated=True)

    @staticmethod
    def membership(children: list[Any]) -> Test:
        """`IN (1, 2)`, `IN ('x', TRUE) NOCASE`"""
        members = children[1]
        nocase = children[2] if len(children) == 3 else None
        if isinstance(members, Token):
            return Test(Operator.IN, plain_values(members), (members,), nocase)
        return Test(Operator.IN, tuple(map(scalar, members)), tuple(members), nocase)

    @staticmethod
    def literal_list(children: list[Any]) -> list[Token]:
        """`(1, TRUE, NOW())`: a list that holds more than plain values"""
        members: list[Token] = children[1]
        return members

    @staticmethod
    def cidr(children: list[Token]) -> Test:
        """`IN CIDR '10.0.0.0/8'`"""
        return Test(Operator.CIDR, scalar(children[2]), (children[2],))

    @staticmethod
    def between(children: list[Token]) -> Test:
        """`BETWEEN 1 AND 5`"""
        low, high = children[1], children[3]
        return Test(Operator.BETWEEN, (scalar(low), scalar(high)), (low, high))

    @staticmethod
    def like(children: list[Token]) -> Test:
        """`LIKE 'x%'`, `LIKE 'x%' NOCASE`"""
        nocase = children[2] if len(children) == 3 else None
        return Test(Operator.LIKE, scalar(children[1]), (children[1],), nocase)

    @staticmethod
    def like_escape(children: list[Token]) -> Test:
        """`LIKE '5!%' ESCAPE '!'`"""
        nocase = children[4] if len(children) == 5 else None
        return Test(Operator.LIKE, scalar(children[1]), (children[1],), nocase, children[3])

    @staticmethod
    def matches(children: list[Token]) -> Test:
        """`MATCHES '^x+'`"""
        nocase = children[2] if len(children) == 3 else None
        return Test(Operator.REGEX, scalar(children[1]), (children[1],), nocase)

    @staticmethod
    def starts_or_ends(children: list[Token]) -> Test:
        """`STARTS WITH 'x'`, `ENDS WITH ('x', 'y')`"""
        operator = Operator.PREFIX if children[0].type == "STARTS" else Operator.SUFFIX
        nocase = children[3] if len(children) == 4 else None
        return Test(operator, plain_values(children[2]), (children[2],), nocase)

    @staticmethod
    def contains(children: list[Token]) -> Test:
        """`CONTAINS ('x', 'y') NOCASE`"""
        nocase = children[2] if len(children) == 3 else None
        return Test(Operator.CONTAINS, plain_values(children[1]), (children[1],), nocase)

    # Literals

    @staticmethod
    def timestamp(children: list[Token]) -> Token:
        """`TIMESTAMP '2024-02-29T12:00:00Z'`"""
        keyword, string = children
        try:
            instant = parse_instant(unquoted(string.value))
        except ValueError as error:
            raise at(
                string.start_pos,
                FilterError("invalid_timestamp", str(error), hint="write RFC 3339 with an offset"),
            ) from None
        return Token("VALUE", instant, keyword.start_pos)

    @staticmethod
    def now(children: list[Token]) -> Token:
        """`NOW()`, `NOW() - 5m`"""
        if len(children) == 1:
            return Token("VALUE", Now(), children[0].start_pos)
        keyword, sign, duration = children
        try:
            offset_ns = parse_duration(duration.value)
        except ValueError as error:
            raise at(duration.start_pos, FilterError("invalid_duration", str(error))) from None
        return Token(
            "VALUE", Now(-offset_ns if sign.value == "-" else offset_ns), keyword.start_pos
        )


def _predicate(path: Path, test: Test, quantifier: Quantifier | None) -> Filter:
    """The predicate, its negation folded into the operator where the model has one for it.

    A NOT behind the path applies to each element, so with a quantifier it turns to the other one:
    ANY a NOT LIKE 'x' is NOT ALL a LIKE 'x'.
    """
    operator, outer_not = test.operator, False
    if test.negated:
        if operator in _NEGATED:
            operator = _NEGATED[operator]
        else:
            outer_not, quantifier = True, _OPPOSITE[quantifier]
    escape = None if test.escape is None else unquoted(test.escape.value)
    try:
        predicate = checked(
            Predicate(path, operator, test.operand, test.nocase is not None, quantifier, escape)
        )
    except FilterError as error:
        raise at(_place(test, error.part), error) from None
    return Not(predicate) if outer_not else predicate


def _place(test: Test, part: str) -> int:
    """Where the part of a predicate that a refusal names stands in the text."""
    kind, _, member = part.partition("/")
    if kind == "nocase" and test.nocase is not None:
        return test.nocase.start_pos
    if kind == "escape" and test.escape is not None:
        return test.escape.start_pos
    place = int(member) if member else 0
    return test.at[place if place < len(test.at) else 0].start_pos
