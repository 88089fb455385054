"""Runs the LALR(1) tables that lark makes of a grammar, calling the builder at each reduction.

lark analyses the grammar; its own loop then spends much of its time hashing and comparing rule
objects. Here the tables are flattened once, to integers and functions, and rules that only pass a
value on call nothing: the filter of docs/language.md, section Cost, takes 108 µs instead of 168.

    actions[state][terminal]  int: shift, and go to that state
                              Reduction: take `size` values off, build, go to gotos[state][rule]
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, Protocol

import lark
from lark.lexer import Lexer
from lark.parsers.lalr_analysis import Shift

Build = Callable[[list[Any]], Any]


class Reduction(NamedTuple):
    """A rule that is complete: how many values it takes, its name, and what builds its value."""

    size: int
    rule: str
    build: Build | None  # None: the one value is passed on as it is


Actions = tuple[dict[str, int | Reduction], ...]


class Symbol(Protocol):
    """What the machine reads of a token."""

    type: str


class Unexpected(Exception):
    """A token that no rule can take; `accepted` are the terminals that one could."""

    def __init__(self, token: Any, accepted: frozenset[str]) -> None:
        super().__init__(token, accepted)
        self.token = token
        self.accepted = accepted


class Machine:
    """The flattened tables of one grammar and one builder; it keeps no state of a parse."""

    def __init__(self, grammar: str, builder: object) -> None:
        compiled = lark.Lark(
            grammar,
            parser="lalr",
            lexer=_NoLexer,
            transformer=builder,
            keep_all_tokens=True,
            maybe_placeholders=False,
        ).parser.parser
        table, callbacks = compiled._parse_table, compiled.parser.callbacks
        self.start = table.start_states["start"]
        self.end = table.end_states["start"]
        self.actions: Actions = tuple(
            {
                str(name): target if action is Shift else _reduction(target, callbacks)
                for name, (action, target) in table.states[state].items()
                if name.isupper()
            }
            for state in range(len(table.states))
        )
        self.gotos: tuple[dict[str, int], ...] = tuple(
            {
                str(name): target
                for name, (_, target) in table.states[state].items()
                if not name.isupper()
            }
            for state in range(len(table.states))
        )

    def parse(self, tokens: Callable[[Actions, list[int]], Iterator[Symbol]]) -> Any:
        """The value of the whole text; `tokens` makes its tokens and ends with a `$END`.

        It is given the tables and the stack of states, so that it can see what is accepted.
        """
        actions, gotos = self.actions, self.gotos
        states, values = [self.start], []
        for token in tokens(actions, states):
            kind = token.type
            while True:
                action = actions[states[-1]].get(kind)
                if action.__class__ is int:
                    states.append(action)
                    values.append(token)
                    break
                if action is None:
                    raise Unexpected(token, frozenset(actions[states[-1]]))
                size, rule, build = action
                del states[-size:]
                if build is not None:
                    parts = values[-size:]
                    del values[-size:]
                    values.append(build(parts))
                states.append(gotos[states[-1]][rule])
                if states[-1] == self.end:
                    return values[-1]
        raise AssertionError("the tokens ended without $END")


def _reduction(rule: Any, callbacks: dict[Any, Build]) -> Reduction:
    size = len(rule.expansion)
    passes_on = rule.options.expand1 and rule.alias is None and size == 1
    return Reduction(size, str(rule.origin.name), None if passes_on else callbacks[rule])


class _NoLexer(Lexer):
    """Tells lark that the terminals are made elsewhere."""

    def __init__(self, lexer_conf: Any) -> None:
        pass

    def lex(self, lexer_state: Any, parser_state: Any) -> Iterator[Any]:
        """Never called: `Machine.parse` runs the tables."""
        raise NotImplementedError
