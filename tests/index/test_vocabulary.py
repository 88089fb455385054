"""The vocabulary: numbers that never change, in Python, in arrays and after a snapshot."""

from __future__ import annotations

import threading
from pathlib import Path as FilePath

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from index.kernels.hashing import child_named, code_of, hash_bytes
from index.model import Path
from index.snapshot import open_snapshot, write_snapshot
from index.vocabulary import Vocabulary, VocabularyColumns

names = st.sampled_from(["a", "b", "ab", "", "é", "a.b", "nine bytes"]) | st.text(max_size=12)
paths = st.lists(names, min_size=1, max_size=4).map(tuple)
texts = st.binary(max_size=20)


def code_in(columns: VocabularyColumns, text: bytes) -> int:
    return int(code_of(columns, np.frombuffer(text, np.uint8)))


def attribute_in(columns: VocabularyColumns, path: Path) -> int:
    node = 0
    for name in path:
        node = int(child_named(columns, node, np.frombuffer(name.encode(), np.uint8)))
        if node < 0:
            return -1
    return int(columns.node[node, 1])


def check(vocabulary: Vocabulary, known_paths: list[Path], known_texts: list[bytes]) -> None:
    """Every way to ask gives the same numbers."""
    columns = vocabulary.columns()
    assert vocabulary.attribute_count == columns.attribute_count == len(known_paths)
    assert vocabulary.string_count == columns.string_count == len(known_texts)
    for number, path in enumerate(known_paths):
        assert vocabulary.attribute(path) == vocabulary.attribute_or_none(path) == number
        assert attribute_in(columns, path) == number
        assert vocabulary.path(number) == path
    for code, text in enumerate(known_texts):
        assert vocabulary.string(text) == vocabulary.string_or_none(text) == code
        assert code_in(columns, text) == code
        assert vocabulary.text(code) == text


@given(st.lists(paths | texts, max_size=30), st.integers(0, 30), st.integers(0, 30))
def test_numbers_are_dense_and_stay(
    words: list[Path | bytes], refresh_at: int, snapshot_at: int
) -> None:
    vocabulary = Vocabulary()
    known_paths: list[Path] = []
    known_texts: list[bytes] = []
    for position, word in enumerate(words):
        if position == refresh_at:
            vocabulary.columns()
        if position == snapshot_at:
            vocabulary = reopened(vocabulary)
        if isinstance(word, bytes):
            known_texts += [word] if word not in known_texts else []
            assert vocabulary.string(word) == known_texts.index(word)
        else:
            known_paths += [word] if word not in known_paths else []
            assert vocabulary.attribute(word) == known_paths.index(word)
    check(vocabulary, known_paths, known_texts)
    check(reopened(vocabulary), known_paths, known_texts)


def reopened(vocabulary: Vocabulary) -> Vocabulary:
    arrays = {name: array.copy() for name, array in vocabulary.to_arrays().items()}
    for array in arrays.values():
        array.flags.writeable = False
    return Vocabulary.from_arrays(arrays)


def test_what_was_never_interned_is_not_found() -> None:
    vocabulary = Vocabulary()
    vocabulary.attribute(("a", "b", "c"))
    vocabulary.string(b"UA")
    for each in (vocabulary, reopened(vocabulary)):
        assert each.attribute_or_none(("a",)) is None
        assert each.attribute_or_none(("a", "b", "c", "d")) is None
        assert each.attribute_or_none(("x",)) is None
        assert each.attribute_or_none(("a.b.c",)) is None
        assert each.string_or_none(b"U") is None
        assert each.child(0, b"a") > 0 > each.child(0, b"b")
        assert attribute_in(each.columns(), ("a", "b")) == -1
        assert code_in(each.columns(), b"ua") == -1


def test_an_inner_node_becomes_an_attribute_later() -> None:
    vocabulary = reopened(Vocabulary())
    assert vocabulary.attribute(("a", "b")) == 0
    vocabulary = reopened(vocabulary)
    assert vocabulary.attribute(("a",)) == 1
    check(vocabulary, [("a", "b"), ("a",)], [])


def test_columns_taken_earlier_stay_as_they_were_or_know_more_but_never_break() -> None:
    vocabulary = Vocabulary(seed=1)
    taken: list[VocabularyColumns] = []
    for number in range(70):
        vocabulary.string(b"%d" % number)
        vocabulary.attribute((f"a{number}", "x"))
        taken.append(vocabulary.columns())
    for size, columns in enumerate(taken, 1):
        assert columns.attribute_count == columns.string_count == size
        for number in range(0, 70, 3):
            code = code_in(columns, b"%d" % number)
            assert code == number if number < size else code in (-1, number)
            attribute = attribute_in(columns, (f"a{number}", "x"))
            assert attribute == number if number < size else attribute in (-1, number)


def test_columns_are_the_same_object_until_something_is_new() -> None:
    vocabulary = Vocabulary()
    vocabulary.string(b"a")
    columns = vocabulary.columns()
    vocabulary.string(b"a")
    assert vocabulary.columns() is columns
    vocabulary.string(b"b")
    assert vocabulary.columns() is not columns


def test_folding_is_asked_for_once_and_kept() -> None:
    vocabulary = Vocabulary()
    vocabulary.string(b"UA")
    assert not vocabulary.folds and not vocabulary.columns().folds
    size = vocabulary.size
    code = vocabulary.string(b"ua", folded=True)
    later = reopened(vocabulary)
    assert later.folds and later.columns().folds
    assert later.size == (0, code + 1, 1) != size


def test_a_snapshot_file_is_mapped_and_grows_only_in_memory(tmp_path: FilePath) -> None:
    vocabulary = Vocabulary()
    texts = [b"value %d" % number for number in range(1_000)]
    for text in texts:
        vocabulary.string(text)
    vocabulary.attribute(("a", "b"))
    write_snapshot(tmp_path / "vocabulary", {}, vocabulary.to_arrays())
    before = (tmp_path / "vocabulary").read_bytes()
    _, arrays = open_snapshot(tmp_path / "vocabulary")
    mapped = Vocabulary.from_arrays(arrays)
    check(mapped, [("a", "b")], texts)
    mapped.string(b"new")
    mapped.attribute(("a",))
    check(mapped, [("a", "b"), ("a",)], [*texts, b"new"])
    assert (tmp_path / "vocabulary").read_bytes() == before


def test_readers_meet_no_half_written_word() -> None:
    vocabulary = Vocabulary()
    failures: list[object] = []
    stop = threading.Event()

    def read() -> None:
        while not stop.is_set():
            columns = vocabulary.columns()
            count = columns.string_count
            for code in (0, count // 2, count - 1):
                if count and code_in(columns, b"word %d" % code) != code:
                    failures.append((code, count))

    readers = [threading.Thread(target=read) for _ in range(2)]
    for reader in readers:
        reader.start()
    for number in range(3_000):
        vocabulary.string(b"word %d" % number)
    stop.set()
    for reader in readers:
        reader.join()
    assert not failures


@pytest.mark.parametrize("size", range(40))
def test_a_hash_is_that_of_the_bytes_wherever_they_stand(size: int) -> None:
    text = bytes(range(100, 100 + size))
    seed = np.uint64(0x1234)
    seen = set()
    for before in range(9):
        for after in (0, 1, 9):
            data = np.frombuffer(b"x" * before + text + b"y" * after, np.uint8)
            seen.add(int(hash_bytes(data, before, before + size, seed)))
    assert len(seen) == 1
    longer = np.frombuffer(text + b"\0", np.uint8)
    assert int(hash_bytes(longer, 0, size + 1, seed)) not in seen
