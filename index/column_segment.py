"""Column segment: an algorithm whose structure is one NamedTuple of arrays.

One of the arrays may be the columns of a predicate phase, under the name `phase`; matching counts
candidates and hits.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Generic, Self, TypeVar

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
        """All columns under their own names."""
        arrays: dict[str, Any] = dict(zip(self.columns_type._fields, self._columns, strict=True))
        phase = arrays.pop("phase", None)
        return arrays if phase is None else {**phase_to_arrays(phase), **arrays}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> Self:
        """The columns that `to_arrays` wrote."""
        return cls(
            cls.columns_type(
                *(
                    phase_from_arrays(arrays) if name == "phase" else arrays[name]
                    for name in cls.columns_type._fields
                )
            )
        )

    def stats(self) -> dict[str, int]:
        """What `match` has counted so far."""
        return {"candidate_count": self._candidate_count, "hit_count": self._hit_count}
