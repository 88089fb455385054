"""Vocabulary: attributes and operand strings as dense numbers, for Python and for kernels.

Subscriptions speak of attribute paths and strings; kernels compare numbers. The vocabulary only
grows and a number never changes its meaning, so segments, snapshots and decoded batches may keep
numbers for as long as they like.

    paths      data.user.id -> 0, data.level -> 1          strings   'SFO' -> 0, 'UA' -> 1

    node       0 (root)   1 data   2 user   3 id   4 level     the trie of names
    parent     -1         0        1        2      1
    attribute  -1         -1       -1       0      1           -1: no attribute ends here

Interning appends to Python lists; `columns()` moves what is new into the arrays, in place while
there is room. Arrays that a caller already holds stay valid for ever: they may or may not show
later additions, and growth leaves them behind instead of moving them.
"""

from __future__ import annotations

import secrets
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from index.byte_strings import ByteStrings, seed_of
from index.growing import read_only
from index.kernels.hashing import (
    ATTRIBUTE,
    NAME_SIZE,
    NAME_START,
    NODE_FIELDS,
    PARENT,
    child_named,
    code_of,
    insert_nodes,
    insert_strings,
)
from index.model import Path

Named = TypeVar("Named")

_ROOT = 0
_PARTS = ("start", "text", "slot")


class VocabularyColumns(NamedTuple):
    """What kernels see of k nodes and s operand strings; arrays may end in spare room."""

    node_slot: NDArray[np.uint64]  # open-addressing table over (parent, name), see kernels.hashing
    node: NDArray[np.int32]  # [k, NODE_FIELDS] parent, attribute or -1, start and size of the name
    name_text: NDArray[np.uint8]
    string_slot: NDArray[np.uint64]  # open-addressing table over the strings
    string_start: NDArray[np.int64]  # [s+1] UTF-8 of string j
    string_text: NDArray[np.uint8]
    seed: np.uint64  # secret that hashes start from
    attribute_count: int
    string_count: int
    folds: int  # 1 if some predicate compares without case, so that batches must be folded


class Vocabulary:
    """Numbers attribute paths and operand strings; one writer at a time, any number of readers."""

    def __init__(self, seed: int | None = None) -> None:
        self._seed = np.uint64(secrets.randbits(64) if seed is None else seed)
        self._lock = threading.RLock()
        self._strings = ByteStrings.empty()
        self._names = ByteStrings.empty()
        self._node: NDArray[np.int32] = np.zeros((0, NODE_FIELDS), np.int32)
        self._attribute_node: list[int] = []
        self._folds = 0
        # Caches of what was interned here, and the part of it that the arrays do not have yet.
        self._code_of: dict[bytes, int] = {}
        self._number_of: dict[Path, int] = {}
        self._node_of: dict[tuple[int, bytes], int] = {}
        self._new_strings: list[bytes] = []
        self._new_nodes: list[tuple[int, bytes]] = [(-1, b"")]
        self._string_count = 0
        self._filed_attributes = 0
        # What was opened from a snapshot: the caches learn its content only as it is asked for.
        self._base: VocabularyColumns | None = None
        self._columns: VocabularyColumns | None = None

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> Vocabulary:
        """The vocabulary that `to_arrays` wrote; the arrays may be mapped and read-only."""
        seed, folds = arrays["scalars"].tolist()
        vocabulary = cls(seed)
        vocabulary._folds = folds
        vocabulary._strings = ByteStrings(*(arrays[f"string_{part}"] for part in _PARTS))
        vocabulary._names = ByteStrings(*(arrays[f"name_{part}"] for part in _PARTS))
        vocabulary._node = arrays["node"]
        vocabulary._attribute_node = arrays["attribute_node"].tolist()
        vocabulary._filed_attributes = len(vocabulary._attribute_node)
        vocabulary._string_count = vocabulary._strings.count
        vocabulary._new_nodes = []
        vocabulary._base = vocabulary.columns()
        return vocabulary

    def to_arrays(self, salt: bytes = b"") -> dict[str, NDArray[Any]]:
        """Everything, as arrays of numbers that a snapshot can hold.

        They are equal for vocabularies that were given the same in the same order. Hashes in them
        start from a seed that takes the salt to guess, for strings come from publishers.
        """
        with self._lock:
            self.columns()
            strings, names = self._strings.trimmed(), self._names.trimmed()
            node = self._node[: names.count]
            seed = seed_of(salt, strings.start, strings.text, names.start, names.text, node)
            insert_strings(strings.slot, strings.columns, 0, strings.count, seed)
            insert_nodes(names.slot, node, names.text, 1, names.count, seed)
            return {
                **strings.arrays("string"),
                **names.arrays("name"),
                "node": node,
                "attribute_node": np.array(self._attribute_node, np.int32),
                "scalars": np.array([seed, self._folds], np.uint64),
            }

    @property
    def attribute_count(self) -> int:
        """How many attributes have a number."""
        return len(self._attribute_node)

    @property
    def string_count(self) -> int:
        """How many operand strings have a code."""
        return self._string_count

    @property
    def folds(self) -> bool:
        """Does some predicate compare without case?"""
        return bool(self._folds)

    @property
    def size(self) -> tuple[int, int, int]:
        """Attributes, strings and folding: equal sizes of one vocabulary mean nothing was added."""
        return self.attribute_count, self.string_count, self._folds

    def attribute(self, path: Path) -> int:
        """The number of an attribute, given on first sight."""
        number = self.attribute_or_none(path)
        if number is not None:
            return number
        with self._lock:
            node = _ROOT
            for name in path:
                node = self._intern_child(node, name.encode())
            number = len(self._attribute_node)
            self._attribute_node.append(node)
            self._number_of[path] = number
            self._columns = None
        return number

    def attributes(self, paths: Sequence[Path]) -> list[int]:
        """The numbers of many attributes."""
        return _numbers(self._number_of, self.attribute, paths)

    def attribute_or_none(self, path: Path) -> int | None:
        """The number of an attribute, or None if no predicate names it."""
        number = self._number_of.get(path)
        if number is not None or self._base is None:
            return number
        node = _ROOT
        for name in path:
            node = self.child(node, name.encode())
        number = self.attribute_of_node(node)
        if number < 0:
            return None
        self._number_of[path] = number
        return number

    def path(self, number: int) -> Path:
        """The path of an attribute."""
        self.columns()
        names, node = [], self._attribute_node[number]
        while node != _ROOT:
            names.append(self._names[node].decode())
            node = int(self._node[node, PARENT])
        return tuple(reversed(names))

    def child(self, node: int, name: bytes) -> int:
        """The trie's node of a name under a node, or -1 if no attribute's path leads there."""
        child = self._node_of.get((node, name), -1)
        if child < 0 and self._base is not None:
            key = np.frombuffer(name, np.uint8)
            child = child_named(self._base, node, key)
            if child >= 0:
                self._node_of[node, name] = child
        return child

    def attribute_of_node(self, node: int) -> int:
        """The number of the attribute that ends at a node, or -1."""
        return int(self.columns().node[node, ATTRIBUTE]) if node >= 0 else -1

    def string(self, text: bytes, folded: bool = False) -> int:
        """The code of an operand string, given on first sight.

        `folded`: the text was folded for NOCASE, so values must be folded before they are compared.
        """
        if folded and not self._folds:
            self.need_folding()
        code = self.string_or_none(text)
        if code is None:
            with self._lock:
                code = self._code_of[text] = self._string_count
                self._string_count += 1
                self._new_strings.append(text)
                self._columns = None
        return code

    def strings(self, texts: Sequence[bytes]) -> list[int]:
        """The codes of many operand strings, none of them folded."""
        return _numbers(self._code_of, self.string, texts)

    def string_or_none(self, text: bytes) -> int | None:
        """The code of an operand string, or None if it has none."""
        code = self._code_of.get(text)
        if code is None and self._base is not None:
            key = np.frombuffer(text, np.uint8)
            found = code_of(self._base, key)
            if found >= 0:
                code = self._code_of[text] = found
        return code

    def text(self, code: int) -> bytes:
        """The operand string of a code."""
        self.columns()
        return self._strings[code]

    def need_folding(self) -> None:
        """From now on batches carry folded strings too: some needle or operand ignores case."""
        with self._lock:
            if not self._folds:
                self._folds = 1
                self._columns = None

    def columns(self) -> VocabularyColumns:
        """The array form of everything interned so far; cheap when little is new."""
        columns = self._columns
        if columns is None:
            with self._lock:
                self._file_strings()
                self._file_nodes()
                columns = self._columns = VocabularyColumns(
                    node_slot=read_only(self._names.slot),
                    node=read_only(self._node),
                    name_text=read_only(self._names.text),
                    string_slot=read_only(self._strings.slot),
                    string_start=read_only(self._strings.start),
                    string_text=read_only(self._strings.text),
                    seed=self._seed,
                    attribute_count=len(self._attribute_node),
                    string_count=self._string_count,
                    folds=self._folds,
                )
        return columns

    def _intern_child(self, parent: int, name: bytes) -> int:
        node = self.child(parent, name)
        if node < 0:
            node = self._names.count + len(self._new_nodes)
            self._new_nodes.append((parent, name))
            self._node_of[parent, name] = node
        return node

    def _file_strings(self) -> None:
        strings = self._strings
        if not self._new_strings:
            return
        first = strings.count
        rehash = strings.append(self._new_strings)
        self._new_strings = []
        insert_strings(
            strings.slot, strings.columns, 0 if rehash else first, strings.count, self._seed
        )

    def _file_nodes(self) -> None:
        names = self._names
        if self._new_nodes:
            first = names.count
            rehash = names.append([name for _, name in self._new_nodes])
            stop = names.count
            if self._node.shape[0] != names.start.size:
                # Together with the slots: columns taken earlier have the old ones of both.
                node = np.full((names.start.size, NODE_FIELDS), -1, np.int32)
                node[:first] = self._node[:first]
                self._node = node
            self._node[first:stop, PARENT] = [parent for parent, _ in self._new_nodes]
            self._node[first:stop, ATTRIBUTE] = -1
            self._node[first:stop, NAME_START] = names.start[first:stop]
            self._node[first:stop, NAME_SIZE] = np.diff(names.start[first : stop + 1])
            self._new_nodes = []
            start = 1 if rehash or not first else first  # the root has no name to be found by
            insert_nodes(names.slot, self._node, names.text, start, stop, self._seed)
        new = self._attribute_node[self._filed_attributes :]
        if new:
            if not self._node.flags.writeable:
                self._node = self._node.copy()
            first = self._filed_attributes
            self._node[new, ATTRIBUTE] = np.arange(first, first + len(new))
            self._filed_attributes += len(new)


def _numbers(
    known: Mapping[Named, int], number_of: Callable[[Named], int], names: Sequence[Named]
) -> list[int]:
    """The numbers of many names: those that are known at the cost of one look each."""
    numbers = [known.get(name, -1) for name in names]
    if -1 not in numbers:
        return numbers
    return [number_of(name) if n < 0 else n for name, n in zip(names, numbers, strict=True)]
