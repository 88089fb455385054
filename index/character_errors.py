"""What to tell the author of a text that holds characters which begin no token."""

from __future__ import annotations

import re
import unicodedata

from index.errors import FilterError

OPERATORS = (
    "= != <> < <= > >= IN, NOT IN, BETWEEN, LIKE, STARTS WITH, ENDS WITH, CONTAINS, MATCHES, "
    "IN CIDR, IS NULL"
)
NUMBER_HINT = (
    "numbers follow JSON: 5, -0.5, 1e3; no leading + or 0, a digit on both sides of the dot"
)
_ODD_CHARACTERS = (
    # what stands there, code, what is wrong, how to mend it
    ("==", "unknown_operator", "there is no operator ==", "use = to compare"),
    ("=~", "unknown_operator", "there is no operator =~", "use MATCHES for a regular expression"),
    ("&&", "unknown_operator", "there is no operator &&", "use AND"),
    ("||", "unknown_operator", "there is no operator ||", "use OR"),
    ("!", "unknown_operator", "there is no operator !", "use NOT, or != to compare"),
    ("^", "unknown_operator", "there is no operator ^", f"use one of {OPERATORS}"),
    ("~", "unknown_operator", "there is no operator ~", f"use one of {OPERATORS}"),
    ("#", "syntax", "there are no comments", "leave it out"),
    ("/", "syntax", "there are neither comments nor arithmetic", "leave it out"),
    ("*", "syntax", "there is no arithmetic", "compare an attribute with a value"),
    ("%", "syntax", "there is no arithmetic", "put a pattern in single quotes: LIKE 'a%'"),
    (";", "syntax", "a filter is one expression", "leave the semicolon out"),
)
_NUMBER_LIKE = re.compile(r"[+-]?(?:[0-9][0-9A-Za-z_.]*|\.[0-9])")


def no_token(text: str, position: int) -> FilterError:
    """The refusal of characters that begin no token."""
    character = text[position]
    if character == "'":
        error = FilterError(
            "unterminated", "this string is never closed", hint="a quote inside is written ''"
        )
    elif character == '"':
        error = FilterError(
            "unterminated",
            "this quoted name is never closed",
            hint="strings take single quotes, names double ones",
        )
    elif character in "‘’‚“”„`´":
        error = FilterError(
            "syntax", f"{character} is no quote here", hint="put strings in plain single quotes '"
        )
    elif character == "." and not _NUMBER_LIKE.match(text, position):
        error = FilterError(
            "syntax",
            "a dot needs a name on both sides",
            hint='quote names that begin with a digit or hold other characters: a."0"',
        )
    elif _NUMBER_LIKE.match(text, position):
        error = FilterError("syntax", "this is no number", hint=NUMBER_HINT)
    else:
        error = _odd_character(text, position)
    error.position = position
    return error


def _odd_character(text: str, position: int) -> FilterError:
    for characters, code, message, hint in _ODD_CHARACTERS:
        if text.startswith(characters, position):
            return FilterError(code, message, hint=hint)
    character = text[position]
    name = unicodedata.name(character, "").lower()
    shown = character if character.isprintable() and not character.isspace() else ""
    called = " ".join(filter(None, (shown, f"U+{ord(character):04X}", name and f"({name})")))
    return FilterError(
        "syntax",
        f"the character {called} has no meaning here",
        hint="names with other characters than A-Z a-z 0-9 _ @ $ - go in double quotes",
    )
