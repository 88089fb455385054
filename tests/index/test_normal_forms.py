"""Normal forms: which programs have parts by AND or by OR, and which leaves are in each part."""

from __future__ import annotations

import numpy as np
import pytest

from index.language import parse_text
from index.normal_forms import AND, OR, in_normal_form, parts_of_rows
from index.predicate_table import PredicateTable
from index.program import POLARITY_BITS, ProgramTable
from index.vocabulary import Vocabulary

Parts = list[list[str]] | None


def parts(text: str, outer: int) -> Parts:
    """The attributes of each part, or None; between two other rows, which have two parts."""
    table = ProgramTable(PredicateTable(Vocabulary()))
    both = "p = 1 AND p = 2" if outer == AND else "p = 1 OR p = 2"
    table.append_all(parse_text(one) for one in (both, text, both))
    programs, predicates = table.columns(), table.predicates.columns()
    rows = np.arange(3, dtype=np.int32)
    normal = in_normal_form(programs, predicates, rows, outer)
    assert normal[0] and normal[2]
    if not normal[1]:
        return None
    place, part, code = parts_of_rows(programs, rows, outer)
    assert place.tolist() == sorted(place.tolist()) and set(np.diff(part)) <= {0, 1}
    assert part[place == 0].tolist() == [0, 1] and part[-1] - part[place == 1].max() == 2
    path = table.predicates.vocabulary.path
    named = [path(int(at))[0] for at in predicates.record["attribute"][code >> POLARITY_BITS]]
    of_row = {int(number): "" for number in part[place == 1]}
    for number, one in zip(part[place == 1].tolist(), np.array(named)[place == 1], strict=True):
        of_row[number] += str(one)
    return sorted(sorted(letters) for letters in of_row.values())


@pytest.mark.parametrize(
    ("text", "by_and", "by_or"),
    [
        ("a = 1", [["a"]], [["a"]]),
        ("a = 1 AND b = 2", [["a"], ["b"]], [["a", "b"]]),
        ("a = 1 OR b = 2", [["a", "b"]], [["a"], ["b"]]),
        ("(a = 1 OR b = 2) AND c = 3 AND (d = 4 OR e = 5)", [["a", "b"], ["c"], ["d", "e"]], None),
        ("(a = 1 AND b = 2) OR c = 3 OR (d = 4 AND e = 5)", None, [["a", "b"], ["c"], ["d", "e"]]),
        ("NOT (a = 1 AND b = 2)", [["a", "b"]], [["a"], ["b"]]),
        ("NOT (a = 1 OR (b = 2 AND c = 3))", [["a"], ["b", "c"]], None),
        ("a = 1 AND (b = 2 OR (c = 3 AND d = 4))", None, None),
        ("a = 1 OR (b = 2 AND (c = 3 OR d = 4))", None, None),
        ("ATLEAST 2 OF (a = 1, b = 2, c = 3)", None, None),
        ("a = 1 AND ATLEAST 2 OF (b = 1, c = 2, d = 3)", None, None),
        ("a = 1 OR ATLEAST 2 OF (b = 1, c = 2, d = 3)", None, None),
        ("a MATCHES 'x' AND b IN CIDR '10.0.0.0/8'", [["a"], ["b"]], [["a", "b"]]),
        ("a = 1 AND MISSING b", None, None),
        ("a = 1 OR (b = 2) IS NOT TRUE", None, None),
        ("a = 1 AND b[c = 3]", None, None),
        ("TRUE", None, None),
        ("FALSE", None, None),
    ],
)
def test_parts(text: str, by_and: Parts, by_or: Parts) -> None:
    assert parts(text, AND) == by_and
    assert parts(text, OR) == by_or
