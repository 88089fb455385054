"""`./herald bench match`: algorithms side by side on one file of subscriptions and one of events.

Every algorithm decodes with its own vocabulary, before the clock runs; what decoding costs is told
apart. Rounds of all algorithms are interleaved and each figure is the median of its rounds, so that
a noisy minute of the machine falls on all. Before any figure is reported, the ids matched by each
event are compared over all algorithms.
"""

from __future__ import annotations

import hashlib
import random
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from index import registry
from index.base import MatchIndex
from index.events import Events, decode_payloads
from index.model import Instant, Subscription

BATCH_EVENTS = 1_024
SINGLE_EVENTS = 1_000
"""Events that are also matched one by one; more would only lengthen the run."""
CHURN_SUBSCRIPTIONS = 2_000
"""Subscriptions removed and added again, one call each."""
SEED = 1


class CountsDifferError(AssertionError):
    """Two algorithms disagree, so no time of theirs means anything."""


@dataclass(slots=True)
class Contender:
    """One algorithm of the run with what was measured of it."""

    name: str
    index: MatchIndex
    build_s: float
    batches: list[Events]
    decode_us_per_event: float
    singles: list[Events]
    digests: list[bytes] = field(default_factory=list)
    match_count: int = 0
    candidates: int | None = None
    batch_s: list[float] = field(default_factory=list)
    single_s: list[float] = field(default_factory=list)
    delete_s: float = 0.0
    insert_s: float = 0.0


def bench(
    subscriptions: Sequence[Subscription],
    payloads: Sequence[bytes],
    algorithms: Sequence[str],
    rounds: int,
    progress: Callable[[str], None],
) -> dict[str, object]:
    """Figures of every algorithm; CountsDifferError if their matches are not the same."""
    now = Instant(*divmod(time.time_ns(), 1_000_000_000))
    contenders = []
    for name in algorithms:
        progress(f"{name}: building over {len(subscriptions):,} subscriptions")
        contenders.append(_prepare(name, subscriptions, payloads, now))
    progress("comparing the matches of all algorithms")
    for contender in contenders:
        _record_matches(contender, now)
    _assert_equal(contenders)
    for number in range(1, rounds + 1):
        progress(f"round {number} of {rounds}")
        for contender in contenders:
            contender.batch_s.append(_time_matching(contender.index, contender.batches, now))
            contender.single_s.append(_time_matching(contender.index, contender.singles, now))
    for contender in contenders:
        progress(f"{contender.name}: removing and adding")
        _churn(contender, subscriptions)
    return {
        "subscriptions": len(subscriptions),
        "events": len(payloads),
        "rounds": rounds,
        "batch_events": BATCH_EVENTS,
        "algorithms": {one.name: _figures(one, len(payloads)) for one in contenders},
    }


def _prepare(
    name: str, subscriptions: Sequence[Subscription], payloads: Sequence[bytes], now: Instant
) -> Contender:
    algorithm = registry.get(name)
    # Kernels compile on first use, or load from their cache: not what build_s is about.
    warm = algorithm.build(subscriptions[:100])
    warm.match(decode_payloads(payloads[:2], warm.vocabulary).events, now)
    started = time.perf_counter()
    index = algorithm.build(subscriptions)
    build_s = time.perf_counter() - started
    batches = [decode_payloads(some, index.vocabulary).events for some in batches_of(payloads)]
    decode_s = sum(events.decode_s for events in batches)
    singles = [decode_payloads([one], index.vocabulary).events for one in payloads[:SINGLE_EVENTS]]
    return Contender(name, index, build_s, batches, 1e6 * decode_s / max(1, len(payloads)), singles)


def batches_of(payloads: Sequence[bytes]) -> Iterator[Sequence[bytes]]:
    """The payloads in batches of the size that benchmarks match at once."""
    for start in range(0, len(payloads), BATCH_EVENTS):
        yield payloads[start : start + BATCH_EVENTS]


def _record_matches(contender: Contender, now: Instant) -> None:
    """Matched ids of every event, as digests: a million matches an event need not be kept."""
    index = contender.index
    before = index.stats().get("candidate_count")
    for events in contender.batches:
        for ids in index.ids_by_event(index.match(events, now)):
            contender.match_count += len(ids)
            contender.digests.append(hashlib.blake2b("\n".join(sorted(ids)).encode()).digest())
    if before is not None:
        contender.candidates = int(index.stats()["candidate_count"] - before)


def _assert_equal(contenders: Sequence[Contender]) -> None:
    first = contenders[0]
    for other in contenders[1:]:
        if other.digests != first.digests:
            differing = [
                number
                for number, pair in enumerate(zip(first.digests, other.digests, strict=True))
                if pair[0] != pair[1]
            ]
            raise CountsDifferError(
                f"{first.name} finds {first.match_count:,} matches and {other.name} "
                f"{other.match_count:,}; {len(differing):,} events differ, "
                f"the first in line {differing[0]} (from 0)"
            )


def _time_matching(index: MatchIndex, batches: Sequence[Events], now: Instant) -> float:
    started = time.perf_counter()
    for events in batches:
        index.match(events, now)
    return time.perf_counter() - started


def _churn(contender: Contender, subscriptions: Sequence[Subscription]) -> None:
    """Remove some subscriptions and add them again, each by a call of its own."""
    chosen = random.Random(SEED).sample(subscriptions, min(CHURN_SUBSCRIPTIONS, len(subscriptions)))
    index, count = contender.index, len(contender.index)
    started = time.perf_counter()
    for subscription in chosen:
        index.remove(subscription.id)
    contender.delete_s = (time.perf_counter() - started) / max(1, len(chosen))
    started = time.perf_counter()
    for subscription in chosen:
        index.add(subscription)
    contender.insert_s = (time.perf_counter() - started) / max(1, len(chosen))
    if len(index) != count:
        raise CountsDifferError(f"{contender.name} holds {len(index)} after churn, not {count}")


def _figures(contender: Contender, event_count: int) -> dict[str, object]:
    singles = max(1, len(contender.singles))
    candidates = contender.candidates
    return {
        "build_s": round(contender.build_s, 6),
        "bytes": _bytes(contender.index.stats()),
        "us_per_event": round(1e6 * statistics.median(contender.single_s) / singles, 3),
        "us_per_event_batch": round(
            1e6 * statistics.median(contender.batch_s) / max(1, event_count), 3
        ),
        "decode_us_per_event": round(contender.decode_us_per_event, 3),
        "matches": contender.match_count,
        "candidates_per_event": None if candidates is None else candidates / max(1, event_count),
        "insert_per_s": round(1 / contender.insert_s) if contender.insert_s else None,
        "delete_per_s": round(1 / contender.delete_s) if contender.delete_s else None,
    }


def _bytes(stats: dict[str, int | float]) -> int | None:
    """What an index tells of its memory, rows and structure; None if it tells nothing."""
    if "structure_bytes" not in stats:
        return None
    return int(stats["row_bytes"] + stats["structure_bytes"])
