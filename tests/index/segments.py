"""Segments for tests of one algorithm: built alone, and read again from a snapshot."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from index.access import Shares
from index.events import encode
from index.kernels.probe import Compiled
from index.language import parse_text
from index.predicate_table import PredicateTable
from index.program import ProgramTable
from index.segment import Segment
from index.updatable import Updatable
from index.vocabulary import Vocabulary
from tests.strategies import NOW

Built = TypeVar("Built", bound=Segment)


def built(kind: type[Built], texts: Sequence[str]) -> tuple[Built, NDArray[np.int32]]:
    """A segment of these filters alone, and its rows."""
    programs = ProgramTable(PredicateTable(Vocabulary()))
    programs.append_all(map(parse_text, texts))
    rows = np.arange(len(texts), dtype=np.int32)
    compiled = Compiled(programs.columns(), programs.predicates.columns())
    attribute_count = programs.predicates.vocabulary.attribute_count
    return kind.build(compiled, rows, attribute_count, Shares.unknown()), rows


def reopened(index: Updatable, events: Sequence[dict[str, Any]]) -> list[list[str]]:
    """What an index matches after it was saved and opened."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "snapshot"
        index.save(path)
        opened = type(index).open(path)
        opened.check()
        matches = opened.match(encode(events, opened.vocabulary), NOW)
        return [sorted(ids) for ids in opened.ids_by_event(matches)]
