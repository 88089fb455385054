"""Byte strings in two arrays, with the hash table that finds them: how a vocabulary keeps words.

The strings SFO, UA and late are start [0 3 5 9] and text "SFOUAlate"; `slot` is the table of
`index.kernels.hashing`.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import Any

import numpy as np
from numpy.typing import NDArray


class ByteStrings:
    """Append-only byte strings in two arrays, and the table of slots that will find them."""

    def __init__(self, start: NDArray[np.int64], text: NDArray[np.uint8], slot: NDArray[np.uint64]):
        self.start, self.text, self.slot = start, text, slot
        self.count = start.size - 1

    @classmethod
    def empty(cls) -> ByteStrings:
        """No strings yet."""
        return cls(np.zeros(1, np.int64), np.zeros(0, np.uint8), np.zeros(2, np.uint64))

    def append(self, items: list[bytes]) -> bool:
        """Add strings; True if the slots are new and empty, so that all strings must be filed."""
        text = b"".join(items)
        used = int(self.start[self.count])
        count = self.count + len(items)
        rehash = False
        if count + 1 > self.start.size or used + len(text) > self.text.size:
            rehash = self._grow(count, used + len(text))
        ends = np.cumsum(np.fromiter(map(len, items), np.int64, len(items))) + used
        self.text[used : used + len(text)] = np.frombuffer(text, np.uint8)
        self.start[self.count + 1 : count + 1] = ends
        self.count = count
        return rehash

    def _grow(self, count: int, bytes_count: int) -> bool:
        """Room for twice as much; nothing that a reader may hold is written to."""
        start = np.zeros(2 * count + 1, np.int64)
        start[: self.count + 1] = self.start[: self.count + 1]
        text = np.zeros(2 * bytes_count, np.uint8)
        used = int(self.start[self.count])
        text[:used] = self.text[:used]
        slot_count = 1 << (4 * count).bit_length()
        rehash = slot_count != self.slot.size
        self.slot = np.zeros(slot_count, np.uint64) if rehash else self.slot.copy()
        self.start, self.text = start, text
        return rehash

    @property
    def columns(self) -> tuple[NDArray[np.int64], NDArray[np.uint8]]:
        """(start, text), as kernels take them."""
        return self.start, self.text

    def __getitem__(self, number: int) -> bytes:
        return self.text[self.start[number] : self.start[number + 1]].tobytes()

    def trimmed(self) -> ByteStrings:
        """The same strings without spare room, and with empty slots: all are yet to be filed."""
        start = self.start[: self.count + 1]
        return ByteStrings(start, self.text[: start[-1]], np.zeros_like(self.slot))

    def arrays(self, name: str) -> dict[str, NDArray[Any]]:
        """The arrays, under names that begin with `name`."""
        return {f"{name}_slot": self.slot, f"{name}_start": self.start, f"{name}_text": self.text}


def seed_of(salt: bytes, *contents: NDArray[Any]) -> np.uint64:
    """A seed for hashes that is equal wherever all the contents are, so that files are, too; and
    that nobody can tell who does not know all of them and the salt.
    """
    digest = blake2b(salt, digest_size=8)
    for content in contents:
        digest.update(content.size.to_bytes(8, "little"))
        digest.update(np.ascontiguousarray(content).view(np.uint8).data)
    return np.uint64(int.from_bytes(digest.digest(), "little"))
