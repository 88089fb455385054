"""Compiled leaves that several algorithms share: free functions over arrays, without objects.

With `NUMBA_DISABLE_JIT=1` (the coverage run) they run as plain Python on numpy scalars. Unsigned
hash arithmetic wraps by design, and only numpy would warn of it.
"""

from __future__ import annotations

import numba
import numpy as np

INTERPRETED: bool = bool(vars(numba.config)["DISABLE_JIT"])
"""True if kernels are not compiled in this process."""

if INTERPRETED:
    np.seterr(over="ignore")
