"""Case folding for NOCASE: one code point to one code point, from the project's own table."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from index.casefold_table import FOLDING_RUNS, UNICODE_VERSION

__all__ = ["FOLD_FROM", "FOLD_TO", "UNICODE_VERSION", "fold", "fold_utf8"]

_FOLDED = {
    code: code + distance
    for first, last, step, distance in FOLDING_RUNS
    for code in range(first, last + 1, step)
}

FOLD_FROM: NDArray[np.int32] = np.array(sorted(_FOLDED), dtype=np.int32)
"""Code points that folding changes, ascending: kernels search them."""
FOLD_TO: NDArray[np.int32] = np.array([_FOLDED[code] for code in sorted(_FOLDED)], dtype=np.int32)
"""What FOLD_FROM, entry by entry, folds to."""
FOLD_FROM.flags.writeable = False
FOLD_TO.flags.writeable = False


def fold(text: str) -> str:
    """The text with every code point folded; as many code points as before.

    >>> fold("STRAẞE")
    'straße'
    """
    return text.lower() if text.isascii() else text.translate(_FOLDED)


def fold_utf8(text: bytes) -> bytes:
    """The same for valid UTF-8; the number of bytes may change."""
    return text.lower() if text.isascii() else text.decode().translate(_FOLDED).encode()
