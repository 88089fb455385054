"""Eight bytes at a time: unaligned loads, 128-bit products, and bits.

What numba does not offer has a plain twin, used when compilation is switched off.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic
from numpy.typing import NDArray

from index.kernels import INTERPRETED, inlined, leaf

_WORD = ir.IntType(64)


@intrinsic
def _load_word(_context: Any, data: Any, position: Any) -> Any:
    """An unaligned little-endian load of data[position:position + 8]."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        array = context.make_array(signature.args[0])(context, builder, arguments[0])
        address = builder.gep(array.data, [arguments[1]])
        word = builder.load(builder.bitcast(address, _WORD.as_pointer()))
        word.align = 1
        return word

    return types.uint64(data, types.int64), generate


@intrinsic
def _high_product(_context: Any, left: Any, right: Any) -> Any:
    """The upper 64 bits of the 128-bit product of two unsigned words."""

    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        wide = ir.IntType(128)
        product = builder.mul(builder.zext(arguments[0], wide), builder.zext(arguments[1], wide))
        upper = builder.lshr(product, ir.Constant(wide, 64))
        return builder.trunc(upper, _WORD)

    return types.uint64(types.uint64, types.uint64), generate


@intrinsic
def _trailing_zeros(_context: Any, word: Any) -> Any:
    """The number of zero bits below the lowest set bit of a word that is not zero."""

    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.cttz(arguments[0], ir.Constant(ir.IntType(1), 1))

    return types.int64(types.uint64), generate


def _load_word_plain(data: NDArray[np.uint8], position: int) -> np.uint64:
    return np.uint64(int.from_bytes(data[position : position + 8].tobytes(), "little"))


def _high_product_plain(left: np.uint64, right: np.uint64) -> np.uint64:
    return np.uint64(int(left) * int(right) >> 64)


def _trailing_zeros_plain(word: np.uint64) -> int:
    value = int(word)
    return (value & -value).bit_length() - 1


if INTERPRETED:
    load_word = _load_word_plain
    high_product = _high_product_plain
    trailing_zeros = _trailing_zeros_plain
else:

    @leaf
    def load_word(data: NDArray[np.uint8], position: int) -> np.uint64:
        """data[position:position + 8], little-endian; the caller has checked the bounds."""
        return _load_word(data, position)  # type: ignore[call-arg]

    @leaf
    def high_product(left: np.uint64, right: np.uint64) -> np.uint64:
        """The upper 64 bits of left * right."""
        return _high_product(left, right)  # type: ignore[call-arg]

    @leaf
    def trailing_zeros(word: np.uint64) -> int:
        """Zero bits below the lowest set bit; the word is not zero."""
        return _trailing_zeros(word)  # type: ignore[call-arg]


@inlined
def bits_below(count: int) -> int:
    """The bits that tell so many numbers from 0 on apart: the least b for which 2 ** b >= count."""
    bits = 0
    while 1 << bits < count:
        bits += 1
    return bits
