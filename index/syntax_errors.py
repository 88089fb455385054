"""What to tell the author of a text that does not parse: what stands there, and what was meant."""

from __future__ import annotations

import re
from collections.abc import Collection
from difflib import get_close_matches

from index.character_errors import NUMBER_HINT, OPERATORS
from index.errors import FilterError, cut

_OPERATOR_WORDS = (
    "IN BETWEEN LIKE STARTS ENDS CONTAINS MATCHES IS NOT CIDR NULL WITH NOCASE ESCAPE".split()
)
_NAMES_OF_TERMINALS = {
    "PATH": "an attribute",
    "STRING": "a string in single quotes",
    "NUMBER": "a number",
    "LIST": "a list",
    "COMPARISON": "an operator",
    "DURATION": "a duration such as 5m",
    "SIGN": "+ or -",
    "LPAR": "(",
    "RPAR": ")",
    "LSQB": "[",
    "RSQB": "]",
    "COMMA": ",",
    "$END": "the end",
}
_EMPTY_PARENTHESES = re.compile(r"\([ \t\r\n]*\)")
_LAST_WORD = re.compile(r"([A-Za-z]+)[ \t\r\n]*\Z")


def unexpected(
    text: str, kind: str, value: str, position: int, accepted: Collection[str]
) -> FilterError:
    """The refusal of a token that the grammar cannot take here; accepted are the ones it can."""
    error = (
        _at_end(text, kind, accepted)
        or _of_a_reserved_word(text, kind, position, accepted)
        or _of_nocase(value, accepted)
        or _instead_of_attribute(kind, value, text, position, accepted)
        or _of_not(kind, value, accepted)
        or _instead_of_value(kind, value, text, position, accepted)
        or _instead_of_operator(kind, value, text, position, accepted)
        or _after_a_predicate(kind, value, text, position, accepted)
    )
    if error is None:
        error = FilterError(
            "syntax",
            f"{_shown(kind, value)} cannot stand here",
            hint=f"expected {_expected(accepted)}",
        )
    error.position = position
    return error


def _at_end(text: str, kind: str, accepted: Collection[str]) -> FilterError | None:
    if kind != "$END":
        return None
    if not text.strip():
        return FilterError(
            "syntax", "the filter is empty", hint="write TRUE if every event shall match"
        )
    hint = "close the parenthesis" if "RPAR" in accepted else f"expected {_expected(accepted)}"
    return FilterError("syntax", "the filter ends too early", hint=hint)


def _of_a_reserved_word(
    text: str, kind: str, position: int, accepted: Collection[str]
) -> FilterError | None:
    """FORALL, and a reserved word used as an attribute: `not = 1`."""
    if kind == "FORALL":
        return FilterError(
            "syntax",
            "FORALL is reserved and has no meaning yet",
            hint='write "forall" in double quotes if it is an attribute',
        )
    if kind == "COMPARISON" and "PATH" in accepted:
        # Only the last characters: a search over a long word would start at each of them.
        before = _LAST_WORD.search(text[max(0, position - 40) : position])
        word = before[1] if before else ""
        if word.upper() in ("AND", "OR", "NOT", "EXISTS", "MISSING", "ANY", "ALL", "ATLEAST"):
            return FilterError(
                "syntax",
                f"{word} is a reserved word",
                hint=f'write "{word}" in double quotes if it is an attribute',
            )
    return None


def _instead_of_attribute(
    kind: str, value: str, text: str, position: int, accepted: Collection[str]
) -> FilterError | None:
    """A value where a test begins: `'a' = 1`, `5 = a`, `a[0] = 1`."""
    if kind not in ("STRING", "NUMBER") or "PATH" not in accepted:
        return None
    if kind == "NUMBER" and text[:position].rstrip().endswith("["):
        return FilterError(
            "syntax",
            "there is no array index",
            hint='ANY a = 1 and a[x = 1] ask for some element; a."0" is a member named 0',
        )
    return FilterError(
        "syntax",
        f"a test begins with an attribute, not with {cut(value)}",
        hint="names stand unquoted or in double quotes",
    )


def _of_not(kind: str, value: str, accepted: Collection[str]) -> FilterError | None:
    """`a NOT = 1`, `a IS NOT TRUE`."""
    if kind == "COMPARISON" and "BETWEEN" in accepted and "COMPARISON" not in accepted:
        return FilterError(
            "unknown_operator",
            f"there is no operator NOT {value}",
            hint="write != or put NOT before the attribute",
        )
    if kind == "TRUE" and "NULL" in accepted:
        return FilterError(
            "syntax",
            "IS NOT TRUE follows a parenthesis only",
            hint="write (a = TRUE) IS NOT TRUE",
        )
    return None


def _of_nocase(value: str, accepted: Collection[str]) -> FilterError | None:
    if value.upper() != "NOCASE" or "OR" not in accepted:
        return None
    return FilterError(
        "invalid_nocase",
        "NOCASE has no meaning here",
        hint="it ends a test with = != IN LIKE STARTS WITH, ENDS WITH, CONTAINS or MATCHES",
    )


def _instead_of_value(
    kind: str, value: str, text: str, position: int, accepted: Collection[str]
) -> FilterError | None:
    if "STRING" not in accepted:
        return None
    if kind == "NULL" or value.upper() == "NULL":
        return FilterError(
            "null_operand", "NULL is no operand", hint="write IS NULL or IS NOT NULL"
        )
    if kind == "PATH" and value.startswith('"'):
        return FilterError(
            "syntax",
            "double quotes name attributes",
            hint="put strings in single quotes: '" + cut(value[1:-1]).replace("'", "''") + "'",
        )
    if kind == "PATH":
        return FilterError(
            "syntax",
            f"{cut(value)} is an attribute, where a value belongs",
            hint=f"put strings in single quotes: '{cut(value)}'",
        )
    if kind == "SIGN":
        return FilterError("syntax", f"a value cannot begin with {value}", hint=NUMBER_HINT)
    if kind == "COMPARISON":
        return FilterError(
            "unknown_operator", "two operators follow each other", hint=f"use one of {OPERATORS}"
        )
    if kind == "RPAR" and "COMMA" not in accepted:
        return _empty_list()
    if kind == "LPAR" and "LIST" in accepted:
        if _EMPTY_PARENTHESES.match(text, position):
            return _empty_list()
        return FilterError(
            "invalid_operand",
            "a string or a list of strings belongs here",
            hint="write 'x' or ('x', 'y')",
        )
    if "NUMBER" not in accepted and kind in ("NUMBER", "TRUE", "FALSE", "TIMESTAMP", "NOW", "LIST"):
        return FilterError(
            "invalid_operand",
            f"a string belongs here, not {cut(value)}",
            hint="put it in single quotes",
        )
    return None


def _empty_list() -> FilterError:
    return FilterError(
        "empty_list", "the list is empty, so it could never hold", hint="name its values"
    )


def _instead_of_operator(
    kind: str, value: str, text: str, position: int, accepted: Collection[str]
) -> FilterError | None:
    if "COMPARISON" not in accepted:
        return None
    if kind == "LSQB":
        return FilterError(
            "invalid_quantifier",
            "ANY and ALL do not go with [ ]",
            hint="a[...] already asks for some element; NOT a[NOT (...)] asks for all",
        )
    if text.startswith("-", position) or kind == "SIGN":
        return FilterError(
            "syntax",
            "there is no arithmetic",
            hint="a name may hold a hyphen if no space stands before it: a-1",
        )
    if kind == "LPAR":
        return FilterError(
            "syntax", "there are no functions", hint=f"the operators are {OPERATORS}"
        )
    if kind == "$END" or not value[:1].isalpha():
        return None
    word = value.split(".")[0].upper()
    close = get_close_matches(word[:20], _OPERATOR_WORDS, n=1)
    meant = f"did you mean {close[0]}? " if close and close[0] != word else ""
    return FilterError(
        "unknown_operator",
        f"{cut(value)} is no operator",
        hint=f"{meant}the operators are {OPERATORS}",
    )


def _after_a_predicate(
    kind: str, value: str, text: str, position: int, accepted: Collection[str]
) -> FilterError | None:
    if "OR" not in accepted:
        return None
    if kind == "RPAR":
        return FilterError("syntax", "this parenthesis closes nothing", hint="leave it out")
    if text.startswith("--", position):
        return FilterError("syntax", "there are no comments", hint="leave it out")
    if kind == "IS":
        return FilterError(
            "syntax",
            "IS NOT TRUE follows a parenthesis only",
            hint="write (expression) IS NOT TRUE",
        )
    return FilterError(
        "syntax",
        f"{_shown(kind, value)} cannot follow here",
        hint="join tests with AND or OR, and the values of a list with commas",
    )


def _shown(kind: str, value: str) -> str:
    if kind == "$END":
        return "the end"
    return cut(value)


def _expected(accepted: Collection[str]) -> str:
    """The accepted tokens in words, the common beginnings of an expression taken together."""
    names = set(accepted)
    if {"PATH", "NOT", "ATLEAST"} <= names:
        return "an attribute, NOT, EXISTS, MISSING, ANY, ALL, ATLEAST, TRUE, FALSE or ("
    if {"NUMBER", "STRING", "TIMESTAMP"} <= names:
        return "a value: a number, 'text', TRUE, FALSE, TIMESTAMP 'text' or NOW()"
    return " or ".join(sorted(_NAMES_OF_TERMINALS.get(name, name) for name in names))
