"""Asking for memory before it is needed: while one candidate is tested, the next is on its way.

A cache line from main memory takes as long as some hundred instructions, and the rows of an
event's candidates lie anywhere. The plain twin does nothing, which is always right.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic
from numpy.typing import NDArray

from index.kernels import INTERPRETED, inlined

_READ, _KEEP, _DATA = 0, 3, 1
"""LLVM's prefetch: to be read, to be kept in all caches, data and not code."""


@intrinsic
def _prefetch(_context: Any, array: Any, place: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        data = context.make_array(signature.args[0])(context, builder, arguments[0]).data
        address = builder.bitcast(builder.gep(data, [arguments[1]]), cgutils.voidptr_t)
        number = ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [cgutils.voidptr_t, number, number, number])
        function = builder.module.declare_intrinsic("llvm.prefetch", [cgutils.voidptr_t], kind)
        builder.call(function, [address, *(number(one) for one in (_READ, _KEEP, _DATA))])
        return context.get_dummy_value()

    return types.void(array, types.intp), generate


def _no_prefetch(array: NDArray[Any], place: int) -> None:
    """Nothing is loaded before it is read."""


def _compiled_prefetch(array: NDArray[Any], place: int) -> None:
    """Begin to load the cache line of array[place]; any place is allowed."""
    _prefetch(array, place)  # type: ignore[call-arg]


prefetch = inlined(_no_prefetch if INTERPRETED else _compiled_prefetch)
