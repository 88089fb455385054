"""What can be wrong with a filter or an event: stable codes and two exceptions."""

from __future__ import annotations

FILTER_ERROR_CODES = {
    "syntax": "the text does not follow the grammar",
    "unterminated": "a quote is opened and never closed",
    "invalid_json": "the bytes are not JSON",
    "invalid_unicode": "the text holds a lone surrogate or is not UTF-8",
    "duplicate_key": "a JSON object names one key twice",
    "unknown_key": "a key that this kind of node does not take",
    "missing_key": "a key that this kind of node needs",
    "invalid_node": "a JSON value that is no filter, or a key's value of the wrong type",
    "invalid_path": "an attribute path that cannot be read",
    "unknown_operator": "an operator that the language does not have",
    "invalid_operand": "an operand of a type that the operator does not take",
    "null_operand": "NULL as an operand",
    "empty_list": "a list, AND or OR without members",
    "mixed_bounds": "bounds of BETWEEN that have different types",
    "reversed_bounds": "a BETWEEN whose lower bound exceeds the upper one",
    "invalid_nocase": "NOCASE where it has no meaning",
    "invalid_quantifier": "ANY or ALL where it has no meaning",
    "invalid_count": "an ATLEAST that asks for none or for more than there are",
    "invalid_number": "a number that no finite double can hold",
    "invalid_timestamp": "a text that is no RFC 3339 timestamp",
    "invalid_duration": "an offset of NOW() that cannot be read or is too large",
    "invalid_regex": "a pattern that RE2 does not accept, or whose program is too large",
    "invalid_cidr": "a text that is no IPv4 or IPv6 network",
    "invalid_escape": "an ESCAPE of more than one character, or one that escapes nothing",
    "too_large": "more bytes than a filter may have",
    "too_deep": "more nesting than a filter may have",
    "too_many_predicates": "more predicates than a filter may have",
    "too_many_values": "more values than a list may have",
}
"""Every code a FilterError can carry, with its meaning; docs/language.md has the same table."""

EVENT_ERROR_REASONS = {
    "not_an_object": "the payload is JSON but no object",
    "invalid_json": "the payload is not JSON",
    "invalid_utf8": "the payload is not UTF-8",
    "lone_surrogate": "a string or name escapes half of a surrogate pair",
    "duplicate_key": "an object names one attribute twice",
    "invalid_number": "NaN, an infinity, or a number that no finite double can hold",
    "too_large": "more bytes than an event may have",
    "too_deep": "more nesting than an event may have",
    "too_many_values": "more leaf values than an event may have",
}
"""Every reason an EventError can carry, with its meaning."""


class FilterError(ValueError):
    """A filter that is refused: what is wrong, where, and how to mend it.

    position  character offset in the text form, counted from 0; line and column count from 1.
    pointer   RFC 6901 pointer into the JSON form ('' is the whole filter).
    part      the piece of a predicate that is wrong ('value', 'value/1', 'escape', ...), from
              which the parsers derive position and pointer.
    """

    def __init__(
        self,
        code: str,
        message: str,
        *,
        hint: str = "",
        part: str = "",
        pointer: str | None = None,
    ) -> None:
        super().__init__(code, message)
        self.code = code
        self.message = message
        self.hint = hint
        self.part = part
        self.pointer = pointer
        self.position: int | None = None
        self.line: int | None = None
        self.column: int | None = None
        self.excerpt: str | None = None

    def locate(self, text: str, position: int) -> FilterError:
        """Set the place in the text form, and cut the line with a caret under it."""
        line_start = text.rfind("\n", 0, position) + 1
        line = text[line_start:].partition("\n")[0]
        self.position = position
        self.line = text.count("\n", 0, position) + 1
        self.column = position - line_start + 1
        self.excerpt = _excerpt(line, self.column)
        return self

    def __str__(self) -> str:
        if self.position is not None:
            where = f" at line {self.line}, column {self.column}"
        elif self.pointer is not None:
            where = f" at {self.pointer or 'the top of the filter'}"
        else:
            where = ""
        return f"{self.message}{where}" + (f"; {self.hint}" if self.hint else "")


class EventError(ValueError):
    """An event that cannot be decoded: a stable reason, and what was found."""

    def __init__(self, reason: str, detail: str = "") -> None:
        super().__init__(reason, detail)
        self.reason = reason
        self.detail = detail

    def __str__(self) -> str:
        return f"{self.reason}: {self.detail}" if self.detail else self.reason


def cut(text: str, length: int = 40) -> str:
    """The text as a message may quote it: what users send can be a megabyte long."""
    return text if len(text) <= length else text[:length] + "…"


def _excerpt(line: str, column: int, width: int = 60) -> str:
    """The part of a line around a column, with a caret under the column."""
    start = max(0, column - 1 - width // 2)
    return f"{line[start : start + width]}\n{' ' * (column - 1 - start)}^"
