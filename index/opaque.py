"""What only Python can test, from the columns of predicates."""

from __future__ import annotations

from dataclasses import replace

from index.filter_json import loads_json, parse_json
from index.limits import LIMITS
from index.model import Predicate
from index.predicates import PredicateColumns, needles_of

_ACCEPTED = replace(LIMITS, filter_bytes=2**31, filter_list_values=2**31)
"""For predicates that were accepted before: limits may have been lowered since."""


def opaque_predicate(predicates: PredicateColumns, number: int) -> Predicate:
    """The predicate of a record that is OPAQUE_TEXT or OPAQUE_EQUAL."""
    (spelling,) = needles_of(predicates, number)
    predicate = parse_json(loads_json(spelling, _ACCEPTED), _ACCEPTED)
    assert isinstance(predicate, Predicate)
    return predicate
