"""The values of literal tokens in the text form."""

from __future__ import annotations

from index.errors import FilterError
from index.lexer import Token, at
from index.model import Scalar
from index.numbers import parse_number


def scalar(token: Token) -> Scalar:
    """The value of a literal's token."""
    match token.type:
        case "NUMBER":
            return number(token.value, token.start_pos)
        case "STRING":
            return unquoted(token.value)
        case "TRUE" | "FALSE":
            return token.type == "TRUE"
        case _:
            value: Scalar = token.value
            return value


def plain_values(token: Token) -> tuple[Scalar, ...]:
    """The values of a LIST, or of a lone STRING that stands for a list of one."""
    if token.type == "STRING":
        return (unquoted(token.value),)
    return tuple(
        [
            unquoted(text) if text[0] == "'" else number(text, token.start_pos)
            for text in token.value
        ]
    )


def number(text: str, position: int) -> int | float:
    """The value of a number; position is where a refusal points."""
    try:
        return parse_number(text)
    except OverflowError as error:
        raise at(
            position, FilterError("invalid_number", str(error), hint="no event can hold it either")
        ) from None


def unquoted(text: str) -> str:
    """What stands between the quotes of a string."""
    return text[1:-1].replace("''", "'")
