"""Intervals: profiles of closed intervals, and points that are asked for.

Paper    Tatbul 2001, section 4.1.6: profiles of two attributes, closed intervals of one size whose
         places follow a Zipf distribution around an origin, 50 documents; overlap grows with size.
         Ji, Jacobsen, PVLDB 12(3), 2018, section 7.5: 100,000 intervals of one attribute and as
         many points.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from benchmarks.workloads.draws import ranks, zipf_shares
from benchmarks.workloads.workload import (
    Predicates,
    Workload,
    attribute_name,
    conjunction,
    payloads_of,
)
from index.model import Operator


@dataclass(frozen=True, slots=True)
class Intervals:
    """Parameters; the defaults are Tatbul's first experiment."""

    profiles: int = 100
    documents: int = 50
    attributes: int = 2
    size: int = 10
    domain: int = 1_000
    zipf: float = 0.0  # how close to the origin, the middle of the domain, intervals lie


def generate(name: str, parameters: Intervals, seed: int = 1) -> Workload:
    """Profiles around the origin, and documents drawn in the same way."""
    random = np.random.default_rng(seed)
    low = _places(random, parameters, parameters.profiles)
    known = Predicates()
    subscriptions = [
        conjunction(
            number,
            [
                known.of(at, Operator.BETWEEN, (start, start + parameters.size))
                for at, start in enumerate(row)
            ],
        )
        for number, row in enumerate(low.tolist())
    ]
    documents = _places(random, parameters, parameters.documents) + random.integers(
        0, parameters.size, (parameters.documents, parameters.attributes), endpoint=True
    )
    names = [attribute_name(at) for at in range(parameters.attributes)]
    events: list[dict[str, object]] = [
        dict(zip(names, row, strict=True)) for row in documents.tolist()
    ]
    return Workload(name, subscriptions, payloads_of(events))


def overlap(parameters: Intervals, seed: int = 1) -> float:
    """The share of pairs of profiles whose intervals of the first attribute meet."""
    low = _places(np.random.default_rng(seed), parameters, parameters.profiles)[:, 0]
    meets = np.abs(low[:, None] - low[None, :]) <= parameters.size
    count = low.size
    return float((meets.sum() - count) / max(1, count * (count - 1)))


def _places(random: Generator, parameters: Intervals, count: int) -> NDArray[np.int64]:
    """[count, attributes] places on both sides of the origin."""
    shape = count, parameters.attributes
    shares = zipf_shares(parameters.domain // 2, parameters.zipf)
    side = random.choice((-1, 1), shape)
    places: NDArray[np.int64] = parameters.domain // 2 + side * ranks(random, shares, shape)
    return places
