"""How the innermost kernels are compiled: into their caller, and without counting references.

A batch is a tuple of fourteen arrays, and an array is seven words. Handed to an ordinary numba
function, each array costs an atomic increment, a decrement, and its seven words on the stack:
together a hundred times what testing a leaf costs (1,000 ns against 10). Inlined, all of it is
gone. The price is compile time: only what runs once per leaf or per candidate is worth it, and a
caller should inline a large kernel at one place only.

A kernel decorated so may not allocate and may not return an array.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

from numba import njit

Kernel = TypeVar("Kernel", bound=Callable[..., Any])

_UNCOUNTED: dict[str, Any] = {"cache": True, "nogil": True, "_nrt": False}


def inlined(kernel: Kernel) -> Kernel:
    """For kernels that take columns: they become part of their caller."""
    return cast(Kernel, njit(**_UNCOUNTED, forceinline=True)(kernel))


def uncounted(kernel: Kernel) -> Kernel:
    """For kernels that take a few arrays: they are called, but do not count references."""
    return cast(Kernel, njit(**_UNCOUNTED)(kernel))
