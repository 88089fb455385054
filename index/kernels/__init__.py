"""Compiled leaves that several algorithms share: free functions over arrays, without objects.

With `NUMBA_DISABLE_JIT=1` (the coverage run) they run as plain Python on numpy scalars. Unsigned
hash arithmetic wraps by design, and only numpy would warn of it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numba
import numpy as np

INTERPRETED: bool = bool(vars(numba.config)["DISABLE_JIT"])
"""True if kernels are not compiled in this process."""

if INTERPRETED:
    np.seterr(over="ignore")

_Function = TypeVar("_Function", bound=Callable[..., Any])


def leaf(function: _Function) -> _Function:
    """Compile a kernel that allocates nothing: no new arrays, no `sort` method, no returned views.

    Such a kernel needs no reference counts. Without them, taking an array out of a NamedTuple is
    free; with them it is an atomic operation and keeps the function from being inlined (measured on
    the event decoder: 30 µs an event with, 4 without, and a third of the time to compile).
    """
    return _compiled(function, no_cfunc_wrapper=True)


def inlined(function: _Function) -> _Function:
    """The same, pasted into each caller: for small parts of a hot loop that take many arrays.

    It has no entry for Python: to call it from there ends the process, so tests call it by a leaf.
    """
    return _compiled(function, forceinline=True, no_cfunc_wrapper=True, no_cpython_wrapper=True)


def _compiled(function: _Function, **options: bool) -> _Function:
    if INTERPRETED:
        return np.errstate(over="ignore")(function)  # numpy's setting above is the main thread's
    jit: Any = numba.njit  # its types do not know these options
    compiled: _Function = jit(cache=True, nogil=True, _nrt=False, **options)(function)
    return compiled
