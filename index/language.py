"""The text form of filters: `parse_text` reads it, `to_text` writes it.

    carrier = 'UA' AND (delay > 60 OR status IN ('cancelled', 'diverted'))

Grammar in grammar.lark, tokens and limits in lexer.py, the tree in tree_builder.py, refusals of
syntax in syntax_errors.py, the writing in text_writer.py, and the language as users see it in
docs/language.md.
"""

from __future__ import annotations

import threading
from functools import cache, partial
from pathlib import Path

from index.errors import FilterError
from index.lalr import Machine, Unexpected
from index.lexer import Source, tokens_of
from index.limits import LIMITS, Limits
from index.model import Filter
from index.syntax_errors import unexpected
from index.text_writer import to_text
from index.tree_builder import TreeBuilder

__all__ = ["parse_text", "to_text"]

_BUILDING = threading.Lock()


def parse_text(text: str, limits: Limits = LIMITS) -> Filter:
    """The filter a text denotes; FilterError with position, line and column if it denotes none.

    >>> parse_text("delay > 60")
    Predicate(path=('delay',), operator=<Operator.GT: 'gt'>, operand=60, ...)
    """
    _check_text(text, limits)
    try:
        tree: Filter = _machine().parse(partial(tokens_of, Source(text, limits)))
        return tree
    except FilterError as refusal:
        assert refusal.position is not None
        raise refusal.locate(text, refusal.position) from None
    except Unexpected as unexpected_token:
        token = unexpected_token.token
        value = token.value if isinstance(token.value, str) else "a list"
        error = unexpected(text, token.type, value, token.start_pos, unexpected_token.accepted)
        raise error.locate(text, token.start_pos) from None


def _check_text(text: str, limits: Limits) -> None:
    if text.isascii():
        size = len(text)
    else:
        try:
            size = len(text.encode())
        except UnicodeEncodeError as error:
            raise FilterError(
                "invalid_unicode", "the text holds a lone surrogate", hint="send valid UTF-8"
            ).locate(text, error.start) from None
    if size > limits.filter_bytes:
        raise FilterError(
            "too_large",
            f"the text has {size} bytes; at most {limits.filter_bytes} are accepted",
            hint="split it over several subscriptions",
        )


def _machine() -> Machine:
    with _BUILDING:
        return _build_machine()


@cache
def _build_machine() -> Machine:
    """The parser, built at the first use: it takes some 50 ms."""
    grammar = Path(__file__).with_name("grammar.lark").read_text(encoding="utf-8")
    return Machine(grammar, TreeBuilder())
