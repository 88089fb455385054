"""Column segment: an algorithm whose structure is one NamedTuple of arrays.

Some of them may be NamedTuples of arrays themselves, and one the columns of a predicate phase,
under the name `phase`; matching counts candidates and hits.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Generic, Self, TypeVar, get_type_hints

from numpy.typing import NDArray

from index.frozen import frozen
from index.predicate_phase import phase_from_arrays, phase_to_arrays
from index.segment import Segment

Columns = TypeVar("Columns", bound=tuple[Any, ...])


class ColumnSegment(Segment, Generic[Columns]):
    """A segment that a snapshot holds column by column; subclasses name the type of these."""

    columns_type: ClassVar[Any]

    def __init__(self, columns: Columns) -> None:
        self._columns = self._kept(columns)
        self._candidate_count = 0
        self._hit_count = 0

    @staticmethod
    def _kept(columns: Columns) -> Columns:
        """The columns as the segment keeps them: nobody writes to them, unless it grows."""
        return frozen(columns)

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """All columns under their own names, those of a part after the part's name."""
        arrays: dict[str, NDArray[Any]] = {}
        for name, part in zip(self.columns_type._fields, self._columns, strict=True):
            if name == "phase":
                arrays |= phase_to_arrays(part)
            elif isinstance(part, tuple):
                named = zip(type(part)._fields, part, strict=True)  # type: ignore[attr-defined]
                arrays |= {f"{name}_{field}": array for field, array in named}
            else:
                arrays[name] = part
        return arrays

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> Self:
        """The columns that `to_arrays` wrote."""
        parts: list[Any] = []
        for name, part_type in get_type_hints(cls.columns_type).items():
            if name == "phase":
                parts.append(phase_from_arrays(arrays))
            elif hasattr(part_type, "_fields"):
                parts.append(part_type(*(arrays[f"{name}_{one}"] for one in part_type._fields)))
            else:
                parts.append(arrays[name])
        return cls(cls.columns_type(*parts))

    def stats(self) -> dict[str, int]:
        """What `match` has counted so far."""
        return {"candidate_count": self._candidate_count, "hit_count": self._hit_count}
