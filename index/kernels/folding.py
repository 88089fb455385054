"""What a batch knows of each distinct string: its operand code, and the same after case folding."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from index.casefold import FOLD_FROM, FOLD_TO
from index.kernels import leaf
from index.kernels.hashing import find_operand, hash_bytes
from index.kernels.json_text import put_code_point

if TYPE_CHECKING:
    from index.vocabulary import VocabularyColumns


def folded_bytes_max(size: int) -> int:
    """The most bytes that valid UTF-8 of `size` bytes folds to: two bytes become three at worst."""
    return size + size // 2


@leaf
def find_codes(
    vocabulary: VocabularyColumns,
    hashes: NDArray[np.uint64],
    strings: tuple[NDArray[np.int64], NDArray[np.uint8]],
    codes: NDArray[np.int32],
) -> None:
    """The code of the operand that equals each string, or -1."""
    starts, text = strings
    for number in range(codes.size):
        start, stop = starts[number], starts[number + 1]
        codes[number] = find_operand(vocabulary, hashes[number], text, start, stop)


@leaf
def fold_strings(
    vocabulary: VocabularyColumns,
    strings: tuple[NDArray[np.int64], NDArray[np.uint8]],
    folded: tuple[NDArray[np.int64], NDArray[np.uint8]],
    codes: NDArray[np.int32],
) -> None:
    """Fold each string, and find the code of the operand that equals the folded one, or -1."""
    starts, text = strings
    folded_starts, folded_text = folded
    folded_starts[0] = 0
    for number in range(codes.size):
        start = folded_starts[number]
        stop = fold_string(text, starts[number], starts[number + 1], folded_text, start)
        folded_starts[number + 1] = stop
        value = hash_bytes(folded_text, start, stop, vocabulary.seed)
        codes[number] = find_operand(vocabulary, value, folded_text, start, stop)


@leaf
def fold_string(
    text: NDArray[np.uint8], start: int, stop: int, target: NDArray[np.uint8], size: int
) -> int:
    """Append the folded text[start:stop], which is valid UTF-8, to target[:size]; the new size."""
    position = start
    while position < stop:
        byte = int(text[position])
        if byte < 0x80:
            target[size] = byte + 0x20 if 0x41 <= byte <= 0x5A else byte
            position, size = position + 1, size + 1
            continue
        length = 2 + (byte >= 0xE0) + (byte >= 0xF0)
        code = byte & (0x7F >> length)
        for at in range(position + 1, position + length):
            code = code << 6 | int(text[at]) & 0x3F
        size = put_code_point(target, size, fold_code_point(code))
        position += length
    return size


@leaf
def fold_code_point(code: int) -> int:
    """What a code point folds to, itself if nothing."""
    place = int(np.searchsorted(FOLD_FROM, code))
    if place < FOLD_FROM.size and FOLD_FROM[place] == code:
        return int(FOLD_TO[place])
    return code
