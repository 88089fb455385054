"""Frozen columns: arrays that nobody may write to any more.

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
