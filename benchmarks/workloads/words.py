"""Words: keyword subscriptions and q-grams, from the public text that comes with Python.

Paper    Ji, Jacobsen, PVLDB 12(3), 2018, section 7.1: a query of keywords becomes a conjunction,
         `boolean` as boo = 'lea'. Sadoghi, Jacobsen, SIGMOD 2011, section 7.1: the 3-grams of a
         title, `string` as st = 'r', tr = 'i', ri = 'n', in = 'g'.
Text     Python's own language reference (pydoc_data.topics), in place of query logs and DBLP: it is
         on every machine, and its words and lines are repeated as those of any text are.
"""

from __future__ import annotations

import re
from functools import cache
from pydoc_data.topics import topics

import numpy as np

from benchmarks.workloads.workload import Workload, conjunction, payloads_of
from index.model import Operator, Predicate, Subscription

QUERY_WORDS = 1, 4
EVENT_WORDS = 93
"""Mean keywords of a document in the PS-Tree paper's set."""
TITLE_LETTERS = 8, 36


@cache
def text() -> tuple[str, ...]:
    """The words of the text, in order, in lower case."""
    return tuple(re.findall(r"[a-z]{2,}", " ".join(topics.values()).lower()))


@cache
def vocabulary() -> tuple[str, ...]:
    """Its distinct words."""
    return tuple(sorted(set(text())))


def keywords(name: str, subscriptions: int, events: int, seed: int = 1) -> Workload:
    """Queries of a few words of a passage, and passages."""
    random = np.random.default_rng(seed)
    words = text()
    known: dict[tuple[str, str], Predicate] = {}
    rows = []
    for number in range(subscriptions):
        size = int(random.integers(*QUERY_WORDS, endpoint=True))
        start = int(random.integers(len(words) - EVENT_WORDS))
        chosen = {words[start + int(random.integers(EVENT_WORDS))] for _ in range(size)}
        pairs = dict(map(_halves, sorted(chosen)))
        rows.append(_conjunction(number, pairs, known))
    starts = random.integers(0, len(words) - EVENT_WORDS, events).tolist()
    passages = (dict(map(_halves, words[at : at + EVENT_WORDS])) for at in starts)
    return Workload(name, rows, payloads_of(dict(passage) for passage in passages))


def grams(name: str, subscriptions: int, events: int, seed: int = 1) -> Workload:
    """3-grams of runs of the text as titles; half of the events are titles subscribed to."""
    random = np.random.default_rng(seed)
    letters = "".join(text())

    def title() -> dict[str, str]:
        start = int(random.integers(len(letters) - TITLE_LETTERS[1]))
        run = letters[start : start + int(random.integers(*TITLE_LETTERS, endpoint=True))]
        return {run[at : at + 2]: run[at + 2] for at in range(len(run) - 2)}

    known: dict[tuple[str, str], Predicate] = {}
    titles = [title() for _ in range(subscriptions)]
    rows = [_conjunction(number, one, known) for number, one in enumerate(titles)]
    asked = [
        title() if at % 2 else titles[int(random.integers(len(titles)))] for at in range(events)
    ]
    return Workload(name, rows, payloads_of(dict(one) for one in asked))


def _halves(word: str) -> tuple[str, str]:
    """Attribute and value of a keyword."""
    return (
        (word[:3], word[3:6]) if len(word) > 6 else (word[: len(word) // 2], word[len(word) // 2 :])
    )


def _conjunction(
    number: int, pairs: dict[str, str], known: dict[tuple[str, str], Predicate]
) -> Subscription:
    predicates = [
        known.setdefault((attribute, value), Predicate((attribute,), Operator.EQ, value))
        for attribute, value in pairs.items()
    ]
    return conjunction(number, predicates)
