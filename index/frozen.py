"""Frozen columns: arrays that nobody may write to any more; and the opposite, for what grows.

A segment's arrays never change once it is built. To say so also spares a compilation: numba makes
another kernel for read-only arrays, which is what a mapped snapshot has.
"""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np

Columns = TypeVar("Columns", bound=tuple[Any, ...])


def frozen(columns: Columns) -> Columns:
    """The same columns, a NamedTuple of arrays and of others like it, with all arrays read-only."""
    for part in columns:
        if isinstance(part, np.ndarray):
            part.flags.writeable = False
        elif isinstance(part, tuple):
            frozen(part)
    return columns


def writable(columns: Columns) -> Columns:
    """The same columns, where arrays that cannot be written to are copied."""
    parts = (
        part.copy()
        if isinstance(part, np.ndarray) and not part.flags.writeable
        else writable(part)
        if isinstance(part, tuple)
        else part
        for part in columns
    )
    return type(columns)(*parts)
