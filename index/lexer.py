"""The lexer of the text form: contextual, linear, and the place where its limits are kept.

A word is a keyword only where the parser can take that keyword; everywhere else it begins a path,
unless it is reserved. A path with all its dots is one token, and so is a list of plain values.
Size, nesting, predicates and list lengths are counted here, before the parser builds anything.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterator
from typing import Any, NamedTuple

from index.character_errors import no_token
from index.errors import FilterError
from index.lalr import Actions
from index.limits import Limits
from index.model import Path
from index.validation import too_deep, too_many_predicates, too_many_values

RESERVED = frozenset("AND OR NOT TRUE FALSE EXISTS MISSING ANY ALL ATLEAST FORALL".split())
"""Words that begin no path unless quoted."""
KEYWORDS = RESERVED.union(
    "OF IN CIDR BETWEEN LIKE ESCAPE MATCHES STARTS ENDS WITH CONTAINS".split(),
    "IS NULL NOCASE TIMESTAMP NOW".split(),
)

_SPACE = r"[ \t\r\n]*+"
_NAME = r'(?:[A-Za-z_@$][A-Za-z0-9_@$-]*+|"(?:[^"]|"")*+")'
_STRING = r"'(?:[^']|'')*+'"
_NO_WORD = r"(?![A-Za-z0-9_@$.])"
_NUMBER = rf"-?(?:0|[1-9][0-9]*+)(?:\.[0-9]++)?(?:[eE][+-]?[0-9]++)?{_NO_WORD}"
_DURATION = rf"[0-9]++(?:ms|s|m|h|d|w){_NO_WORD}"

# Possessive repeats throughout: no text makes the scan go back, so it is linear.
_TOKEN = re.compile(
    rf"""(?:(?P<PATH>{_NAME}(?:{_SPACE}\.{_SPACE}{_NAME})*+)
    |(?P<STRING>{_STRING})
    |(?P<NUMBER>{_NUMBER})
    |(?P<COMPARISON><>|<=|>=|!=|=(?!=)|<|>)
    |(?P<LPAR>\()|(?P<RPAR>\))|(?P<COMMA>,)|(?P<LSQB>\[)|(?P<RSQB>\])
    |(?P<DURATION>{_DURATION})
    |(?P<SIGN>[+-])
    ){_SPACE}""",
    re.VERBOSE,
)
_LIST = re.compile(
    rf"\({_SPACE}(?:(?:{_STRING}|{_NUMBER}){_SPACE},{_SPACE})*+(?:{_STRING}|{_NUMBER}){_SPACE}\){_SPACE}"
)
_LIST_VALUE = re.compile(rf"{_STRING}|{_NUMBER}")
_LEADING_SPACE = re.compile(_SPACE)
_NAMES = re.compile(_NAME)
_SIMPLE_PATH = re.compile(r"[A-Za-z0-9_@$.-]+")
_EMPTY_PARENTHESES = re.compile(rf"\({_SPACE}\){_SPACE}")
_NESTING_KINDS = frozenset("LPAR RPAR LSQB RSQB COMMA NOT AND OR BETWEEN".split())


class Source(NamedTuple):
    """A text to parse, and the limits it must keep."""

    text: str
    limits: Limits


class Token:
    """One token: its terminal, its text (or, of a list, its values' texts), and where it starts."""

    __slots__ = ("start_pos", "type", "value")

    def __init__(self, type: str, value: Any, start_pos: int) -> None:
        self.type = type
        self.value = value
        self.start_pos = start_pos


def tokens_of(source: Source, actions: Actions, states: list[int]) -> Iterator[Token]:
    """The tokens of a text, each named by what the parser, whose states these are, can take."""
    text = source.text
    tally = _Tally(source.limits)
    position = skip_space(text, 0)
    while position < len(text):
        found = _TOKEN.match(text, position)
        if found is None:
            raise no_token(text, position)
        kind: str = found.lastgroup  # type: ignore[assignment]  # every branch has a name
        token = Token(kind, found[kind], position)
        position = found.end()
        accepted = actions[states[-1]]
        if kind == "PATH":
            kind = token.type = _word_kind(token.value, accepted)
            if kind == "PATH":
                if not text.startswith("[", position):
                    tally.count_predicate(token)
            elif kind == "NOW":
                position = _skip_parentheses(text, position)
        elif kind == "LPAR" and "LIST" in accepted:
            plain = _LIST.match(text, token.start_pos)
            if plain is not None:
                position = plain.end()
                values = _LIST_VALUE.findall(text, token.start_pos, position)
                token = Token("LIST", values, token.start_pos)
                tally.check_length(len(values), token)
                kind = "LIST"
        if kind in _NESTING_KINDS:
            tally.follow(token, accepted)
        yield token
    yield Token("$END", "", len(text))


class _Tally:
    """What the limits bound, counted token by token.

    levels    one entry for each parenthesis or bracket open: the NOTs outside that wait for it,
              and whether it counts as nesting (a list's parenthesis does not).
    nots      NOTs whose operand is being read at this level.
    depth     all that is open and counts, NOTs included.
    """

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.predicates = 0
        self.levels: list[tuple[int, bool]] = []
        self.nots = 0
        self.depth = 0
        self.values = 0
        self.in_between = False

    def count_predicate(self, token: Token) -> None:
        self.predicates += 1
        if self.predicates > self.limits.filter_predicates:
            raise at(token.start_pos, too_many_predicates(self.limits))

    def check_length(self, value_count: int, token: Token) -> None:
        if value_count > self.limits.filter_list_values:
            raise at(token.start_pos, too_many_values(self.limits))

    def follow(self, token: Token, accepted: Container[str]) -> None:
        """Enter or leave a level, a NOT or a list member."""
        kind = token.type
        if kind in ("AND", "OR", "COMMA"):
            if kind == "AND" and self.in_between:
                self.in_between = False
                return
            self.depth -= self.nots
            self.nots = 0
            if kind == "COMMA" and self.levels and not self.levels[-1][1]:
                self.values += 1
                self.check_length(self.values, token)
        elif kind in ("RPAR", "RSQB"):
            if self.levels:
                outer_nots, counts = self.levels.pop()
                self.depth -= self.nots + counts
                self.nots = outer_nots
        elif kind == "BETWEEN":
            self.in_between = True
        elif kind == "NOT":
            if "PATH" in accepted:  # not the NOT of `a NOT IN`
                self.nots += 1
                self._deepen(token)
        else:
            counts = "LIST" not in accepted
            self.levels.append((self.nots, counts))
            self.nots, self.values = 0, 1
            if counts:
                self._deepen(token)

    def _deepen(self, token: Token) -> None:
        self.depth += 1
        if self.depth > self.limits.filter_nesting:
            raise at(token.start_pos, too_deep(self.limits))


def skip_space(text: str, position: int) -> int:
    """The first position at or after this one that is no white space."""
    return _LEADING_SPACE.match(text, position).end()  # type: ignore[union-attr]  # may be empty


def path_of(text: str) -> Path:
    """The names of a path token, quotes removed.

    >>> path_of('data."a.b" . c')
    ('data', 'a.b', 'c')
    """
    if _SIMPLE_PATH.fullmatch(text):
        return tuple(text.split("."))
    return tuple(
        name[1:-1].replace('""', '"') if name[0] == '"' else name for name in _NAMES.findall(text)
    )


def at(position: int, error: FilterError) -> FilterError:
    """The error with its offset; the caller of the parser adds line and column."""
    error.position = position
    return error


def _word_kind(word: str, accepted: Container[str]) -> str:
    """The keyword, where the parser takes it or where the word is reserved; otherwise PATH."""
    upper = word.upper()
    if upper in KEYWORDS:
        return upper if upper in accepted or upper in RESERVED else "PATH"
    first, dot, _ = upper.partition(".")
    return first.rstrip() if dot and first.rstrip() in RESERVED else "PATH"


def _skip_parentheses(text: str, position: int) -> int:
    found = _EMPTY_PARENTHESES.match(text, position)
    if found is None:
        raise at(
            position,
            FilterError("syntax", "NOW takes empty parentheses", hint="write NOW() or NOW() - 5m"),
        )
    return found.end()
