"""Column segment: an algorithm whose structure is one NamedTuple of arrays.

Some of them may be NamedTuples of arrays themselves, and one the columns of a predicate phase,
under the name `phase`; matching counts candidates and hits.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Generic, Self, SupportsInt, TypeVar, get_type_hints

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
        """All columns under their own names, those of a part after its name."""
        arrays: dict[str, NDArray[Any]] = {}
        for name, column in zip(self.columns_type._fields, self._columns, strict=True):
            if name == "phase":
                arrays.update(phase_to_arrays(column))
            elif isinstance(column, tuple):
                arrays.update(part_to_arrays(name, column))
            else:
                arrays[name] = column
        return arrays

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> Self:
        """The segment that `to_arrays` wrote."""
        return cls(cls.columns_from_arrays(arrays))

    @classmethod
    def columns_from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> Columns:
        """The columns that `to_arrays` wrote."""
        columns: list[Any] = []
        for name, kind in get_type_hints(cls.columns_type).items():
            if name == "phase":
                columns.append(phase_from_arrays(arrays))
            elif hasattr(kind, "_fields"):
                columns.append(part_from_arrays(name, kind, arrays))
            else:
                columns.append(arrays[name])
        read: Columns = cls.columns_type(*columns)
        return read

    def _found(self, candidate_count: SupportsInt, hit_count: SupportsInt) -> None:
        """Add what one call of `match` has counted."""
        self._candidate_count += int(candidate_count)
        self._hit_count += int(hit_count)

    def stats(self) -> dict[str, int]:
        """What `match` has counted so far."""
        return {"candidate_count": self._candidate_count, "hit_count": self._hit_count}


def part_to_arrays(name: str, part: Any) -> dict[str, NDArray[Any]]:
    """The columns of a NamedTuple of arrays, and of others like it, under the name of the part."""
    arrays: dict[str, NDArray[Any]] = {}
    for field, column in part._asdict().items():
        if isinstance(column, tuple):
            arrays.update(part_to_arrays(f"{name}_{field}", column))
        else:
            arrays[f"{name}_{field}"] = column
    return arrays


def part_from_arrays(name: str, kind: Any, arrays: Mapping[str, NDArray[Any]]) -> Any:
    """The NamedTuple of that kind that `part_to_arrays` wrote."""
    return kind(
        *(
            part_from_arrays(f"{name}_{field}", hint, arrays)
            if hasattr(hint, "_fields")
            else arrays[f"{name}_{field}"]
            for field, hint in get_type_hints(kind).items()
        )
    )
