"""GrowingSegment: a segment that rows enter and leave while it is in use.

Most methods build once; `index.updatable` then gives them changes by small segments beside a large
one. Methods that describe how a structure changes (BE-Tree, dynamic clustering, the PS-Tree) do so
here, in place: no row is built twice, and what a row leaves behind is given back.
"""

from __future__ import annotations

from abc import abstractmethod

import numpy as np
from numpy.typing import NDArray

from index.access import Shares
from index.companion import PartialSegment
from index.kernels.probe import Compiled


class GrowingSegment(PartialSegment):
    """A partial segment with insertion and deletion; not safe for readers while it changes."""

    @abstractmethod
    def insert(
        self, compiled: Compiled, rows: NDArray[np.int32], attribute_count: int, shares: Shares
    ) -> None:
        """Take in rows that `takes` accepts, ascending and greater than all that it has had."""

    @abstractmethod
    def delete(self, compiled: Compiled, rows: NDArray[np.int32]) -> None:
        """Let go of rows that it has; `check` is then called without them."""
