"""Lists of rows in a pool: what they hold, and that only appending and copying take room."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from index.kernels.row_lists import (
    BLOCK_FIELDS,
    WORD_HOLES,
    WORDS,
    append,
    block_words,
    copied,
    drop,
    list_size,
    remove,
    words_to_append,
)


class Pool:
    """A pool that has just the room that is asked for, beside the lists it should hold."""

    def __init__(self) -> None:
        self.pool = np.zeros(4, np.int32)
        self.blocks = np.zeros(BLOCK_FIELDS, np.int64)
        self.blocks[WORDS] = 4
        self.heads: list[int] = []
        self.lists: list[list[int]] = []

    def need(self, words: int) -> None:
        missing = int(self.blocks[WORDS]) + words - self.pool.size
        if missing > 0:
            self.pool = np.concatenate((self.pool, np.full(missing, -7, np.int32)))

    def entries(self, head: int) -> list[int]:
        if head <= 0:
            return [~head] if head else []
        entries: list[int] = self.pool[head + 1 : head + 1 + int(self.pool[head])].tolist()
        return entries

    def check(self) -> None:
        assert [self.entries(head) for head in self.heads] == self.lists
        assert [list_size(self.pool, head) for head in self.heads] == list(map(len, self.lists))
        used = sum(block_words(self.pool, head) for head in self.heads)
        assert 4 + used == self.blocks[WORDS] - self.blocks[WORD_HOLES]
        assert self.blocks[WORDS] <= self.pool.size


@pytest.mark.parametrize("seed", range(8))
def test_lists_grow_and_shrink(seed: int) -> None:
    random, made = Random(seed), Pool()
    made.heads, made.lists = [0] * 6, [[] for _ in range(6)]
    for entry in range(600):
        one = random.randrange(len(made.lists))
        growing = random.random() < (0.75 if entry // 150 % 2 == 0 else 0.25)
        if growing:
            made.need(words_to_append(made.pool, made.heads[one]))
            made.heads[one] = append(made.pool, made.blocks, made.heads[one], entry)
            made.lists[one].append(entry)
        elif made.lists[one]:
            gone = random.choice(made.lists[one])
            before = int(made.blocks[WORDS])
            made.heads[one] = remove(made.pool, made.blocks, made.heads[one], gone)
            made.lists[one].remove(gone)
            assert made.blocks[WORDS] == before, "a removal took room"
        elif random.random() < 0.5:
            other = random.randrange(len(made.lists))
            made.need(block_words(made.pool, made.heads[other]))
            made.heads[one] = copied(made.pool, made.blocks, made.heads[other])
            made.lists[one] = list(made.lists[other])
        made.check()
    for head in made.heads:
        drop(made.pool, made.blocks, head)
    made.heads, made.lists = [], []
    made.check()
