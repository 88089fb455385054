"""The stage of `./herald bench pipeline` and `delivery`: a stack of its own, with subscriptions."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import delivery, pipeline
from benchmarks.matching import batches_of
from benchmarks.workloads import begen
from deploy.demo import flights, generated
from deploy.filter_files import filter_of
from deploy.settings import StackSettings
from deploy.stack import Stack
from deploy.traffic import Registrar
from index.events import decode_payloads
from index.filter_json import to_json
from index.model import Instant, Subscription
from index.registry import get

MATCHES_PER_EVENT = 2.5
"""Of advertisements: about as many as the demo's flights have."""
REFERENCE = "psthash"
"""What counts the notifications that must come out: another method than the service's own."""
LIVE_TIMEOUT_S = 1_800.0


@dataclass(frozen=True)
class Load:
    """Subscriptions, made anew as REST takes them whenever they are asked for, and events."""

    forms: Callable[[], Iterator[dict[str, Any]]]
    payloads: Sequence[bytes]


def run(
    size: tuple[str, int, int],
    amounts: tuple[int, float, int],
    progress: Callable[[str], None],
) -> dict[str, object]:
    """Herald against a pass-through.

    size      name of the workload, subscriptions and events
    amounts   rounds, seconds of latency, writes
    """
    rounds, latency_s, writes = amounts

    def measure(stack: Stack, load: Load, matches: Sequence[int]) -> dict[str, object]:
        plan = pipeline.Plan(rounds, latency_s, writes, sum(matches))
        return pipeline.bench(stack, load.payloads, plan, progress)

    return _on_stage(size, progress, measure)


def compare_deliveries(
    size: tuple[str, int, int], amounts: tuple[int, float], progress: Callable[[str], None]
) -> dict[str, object]:
    """exactly_once against at_least_once; see `run`."""

    def measure(stack: Stack, load: Load, matches: Sequence[int]) -> dict[str, object]:
        return delivery.bench(stack, load.payloads, matches, amounts, progress)

    return _on_stage(size, progress, measure)


def _on_stage(
    size: tuple[str, int, int],
    progress: Callable[[str], None],
    measure: Callable[[Stack, Load, Sequence[int]], dict[str, object]],
) -> dict[str, object]:
    """Start a stack on free ports in a folder of its own, register, measure, stop it."""
    name, subscription_count, event_count = size
    progress(f"drawing {name}")
    load = (_flights if name == "flights" else _ads)(subscription_count, event_count)
    progress(f"counting with {REFERENCE} how many notifications must come out")
    matches = _matches(load)
    settings = StackSettings().on_free_ports()
    with tempfile.TemporaryDirectory(prefix="herald-bench-") as folder:
        progress("starting Kafka, Valkey, the API and Spark")
        with Stack(Path(folder), settings) as stack:
            progress("registering the subscriptions")
            registered = _register(f"http://127.0.0.1:{settings.api_port}", load.forms())
            figures = measure(stack, load, matches)
    return {"workload": name, "subscriptions": registered, **figures}


def _flights(subscription_count: int, event_count: int) -> Load:
    table = flights.load()
    drawn = list(generated.generate(table, subscription_count))
    payloads = flights.payloads(table.slice(0, event_count))
    return Load(lambda: generated.forms(drawn), payloads)


def _ads(subscription_count: int, event_count: int) -> Load:
    parameters = replace(
        begen.ADS,
        subscriptions=subscription_count,
        events=event_count,
        match_probability=MATCHES_PER_EVENT / subscription_count,
    )
    drawn = begen.generate("ads", parameters)
    return Load(
        lambda: ({"id": one.id, "filter": to_json(one.filter)} for one in drawn.subscriptions),
        drawn.payloads,
    )


def _matches(load: Load) -> list[int]:
    """How many subscriptions each event matches."""
    subscriptions = (Subscription(form["id"], filter_of(form)) for form in load.forms())
    index = get(REFERENCE).build(subscriptions)
    counts: list[int] = []
    for payloads in batches_of(load.payloads):
        events = decode_payloads(payloads, index.vocabulary).events
        counts += np.diff(index.match(events, Instant(0, 0)).start).tolist()
    return counts


def _register(base_url: str, forms: Iterable[dict[str, Any]]) -> int:
    """Register, and wait until all are live; returns how many there are."""
    registrar = Registrar(base_url)
    try:
        accepted = max(registrar.register(forms), default=0)
        registrar.wait_live(LIVE_TIMEOUT_S)
        return accepted
    finally:
        registrar.close()
