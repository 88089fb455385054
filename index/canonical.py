"""The canonical form: filters that differ only in writing become one, and get one hash.

These rules and no others, because many that look safe are wrong in three-valued logic or on
multi-valued attributes:
    AND, OR     nested ones of the same kind are flattened, children sorted, repeats dropped
    TRUE, FALSE fold into AND, OR, NOT, IS NOT TRUE and ATLEAST
    ATLEAST     children sorted, repeats kept
    negation    unquantified `a != x`, `a NOT IN`, `a NOT BETWEEN` become NOT of the positive form
    IN          values sorted, repeats dropped; one value: =
    needles     sorted, repeats dropped
    NOCASE      operands folded
    values      numbers and instants by value: 35.0 is 35
Equal hashes mean equal filters; equal filters may still have different hashes.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace

from index.casefold import fold
from index.json_writer import path_json, predicate_json, value_json
from index.model import (
    POSITIVE_FORM,
    And,
    AtLeast,
    Constant,
    Element,
    Filter,
    IsNotTrue,
    Not,
    Operand,
    Operator,
    Or,
    Predicate,
    Scalar,
)
from index.numbers import canonical_number
from index.validation import NEEDLE_OPERATORS

_encode = json.JSONEncoder(ensure_ascii=False, sort_keys=True, separators=(",", ":")).encode

_TRUE = (Constant(True), "true")
_FALSE = (Constant(False), "false")

Keyed = tuple[Filter, str]
"""A canonical filter with its JSON text, by which it is sorted and compared."""


def canonical(node: Filter) -> Filter:
    """The canonical form; canonical of canonical is the same.

    >>> canonical(Predicate(("a",), Operator.IN, (35.0, 35)))
    Predicate(path=('a',), operator=<Operator.EQ: 'eq'>, operand=35, ...)
    """
    return _canonical(node)[0]


def canonical_json(node: Filter) -> str:
    """The canonical form as compact JSON with sorted keys."""
    return _canonical(node)[1]


def filter_hash(node: Filter) -> str:
    """SHA-256 of the canonical form, in hex."""
    return hashlib.sha256(canonical_json(node).encode()).hexdigest()


def _canonical(node: Filter) -> Keyed:
    match node:
        case Predicate():
            return _predicate(node)
        case Constant(value):
            return _TRUE if value else _FALSE
        case And(children):
            return _connective(And, children)
        case Or(children):
            return _connective(Or, children)
        case Not(child):
            return _not(_canonical(child))
        case IsNotTrue(child):
            inner, text = _canonical(child)
            if isinstance(inner, Constant):
                return _FALSE if inner.value else _TRUE
            return IsNotTrue(inner), f'{{"isnottrue":{text}}}'
        case AtLeast(count, children):
            return _at_least(count, children)
        case Element(path, where):
            inner, text = _canonical(where)
            attr = _encode(path_json(path))
            return Element(path, inner), f'{{"attr":{attr},"op":"element","where":{text}}}'


def _connective(kind: type[And] | type[Or], children: tuple[Filter, ...]) -> Keyed:
    """AND or OR: flattened, constants folded, children sorted without repeats."""
    neutral, decisive = (_TRUE, _FALSE) if kind is And else (_FALSE, _TRUE)
    keyed: dict[str, Filter] = {}
    for child, text in _flattened(kind, children):
        if text == decisive[1]:
            return decisive
        if text != neutral[1]:
            keyed[text] = child
    if not keyed:
        return neutral
    texts = sorted(keyed)
    if len(texts) == 1:
        return keyed[texts[0]], texts[0]
    word = "and" if kind is And else "or"
    return kind(tuple([keyed[text] for text in texts])), f'{{"{word}":[{",".join(texts)}]}}'


def _flattened(kind: type[And] | type[Or], children: tuple[Filter, ...]) -> list[Keyed]:
    """The canonical children, those of nested connectives of the same kind in their place."""
    found: list[Keyed] = []
    for child in children:
        if isinstance(child, kind):
            found += _flattened(kind, child.children)
            continue
        keyed = _canonical(child)
        # A child of another kind may itself shrink to one of this kind.
        found += _flattened(kind, keyed[0].children) if isinstance(keyed[0], kind) else [keyed]
    return found


def _at_least(count: int, children: tuple[Filter, ...]) -> Keyed:
    """ATLEAST: TRUE children are counted off, FALSE ones dropped, the rest sorted and all kept."""
    keyed = [_canonical(child) for child in children]
    count -= sum(text == _TRUE[1] for _, text in keyed)
    keyed = sorted(
        [(child, text) for child, text in keyed if text not in (_TRUE[1], _FALSE[1])],
        key=lambda pair: pair[1],
    )
    if count <= 0:
        return _TRUE
    if count > len(keyed):
        return _FALSE
    text = ",".join([text for _, text in keyed])
    return AtLeast(count, tuple([c for c, _ in keyed])), f'{{"atleast":{count},"of":[{text}]}}'


def _not(keyed: Keyed) -> Keyed:
    child, text = keyed
    if isinstance(child, Constant):
        return _FALSE if child.value else _TRUE
    return Not(child), f'{{"not":{text}}}'


def _predicate(predicate: Predicate) -> Keyed:
    """A predicate with its operand in one spelling, negative ones under a NOT."""
    operator = predicate.operator
    if predicate.quantifier is None and operator in POSITIVE_FORM:
        return _not(_predicate(replace(predicate, operator=POSITIVE_FORM[operator])))
    operand = _operand(predicate)
    if operator is Operator.IN and isinstance(operand, tuple) and len(operand) == 1:
        operator, operand = Operator.EQ, operand[0]
    simple = replace(predicate, operator=operator, operand=operand)
    return simple, _encode(predicate_json(simple))


def _operand(predicate: Predicate) -> Operand:
    operator, operand = predicate.operator, predicate.operand
    if operand is None or operator is Operator.REGEX:
        return operand  # folding a pattern would turn \\D into \\d
    if operator is Operator.LIKE and predicate.nocase:
        return _folded_pattern(str(operand), predicate.escape)
    if not isinstance(operand, tuple):
        return _value(operand, predicate.nocase)
    values = [_value(value, predicate.nocase) for value in operand]
    if operator in (Operator.BETWEEN, Operator.NOT_BETWEEN):
        return tuple(values)
    assert operator in NEEDLE_OPERATORS or operator in (Operator.IN, Operator.NOT_IN)
    keyed = {_encode(value_json(value)): value for value in values}
    return tuple([keyed[text] for text in sorted(keyed)])


def _value(value: Scalar, nocase: bool) -> Scalar:
    if isinstance(value, str):
        return fold(value) if nocase else value
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return canonical_number(value)
    return value


def _folded_pattern(pattern: str, escape: str | None) -> str:
    """A LIKE pattern with its literal characters folded.

    The escape character stays, so a literal that folds to it must itself be escaped: with
    ESCAPE 'x', the pattern 'X%' becomes 'xx%'.
    """
    mark = "\\" if escape is None else escape
    folded = []
    escaped = False
    for character in pattern:
        if character == mark and not escaped:
            escaped = True
            continue
        literal = fold(character)
        folded.append(mark + literal if escaped or literal == mark else literal)
        escaped = False
    return "".join(folded)
