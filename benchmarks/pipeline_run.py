"""The stage of `./herald bench pipeline` and `delivery`: a stack of its own, with subscriptions."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks import delivery, pipeline
from benchmarks.matching import batches_of
from benchmarks.processor import Stopwatch
from benchmarks.workloads import begen
from deploy.demo import flights, generated
from deploy.filter_files import filter_of
from deploy.roles import SNAPSHOT_PROCESS, TITLES
from deploy.settings import StackSettings
from deploy.stack import Stack
from deploy.traffic import Registrar
from index.events import decode_payloads
from index.filter_json import to_json
from index.model import Instant, Subscription
from index.registry import get
from store.records import Mode

REFERENCE = "psthash"
"""What counts the notifications that must come out: another method than the service's own."""
LIVE_TIMEOUT_S = 1_800.0
FOLLOWERS = (SNAPSHOT_PROCESS, TITLES["api"])
"""They read what was registered: one builds snapshots of it, the other its index of dry runs."""
QUIET_S = 5.0
BUSY_SHARE_MAX = 0.1
"""Of a core, over so many seconds."""


class Size(NamedTuple):
    """What to draw.

    matches   of an event, on average; of advertisements alone, flights have what the demo has.
    mode      of all subscriptions; in compact mode an event has one notification, or none.
    """

    workload: str
    subscriptions: int
    events: int
    matches: float
    mode: str


@dataclass(frozen=True)
class Load:
    """Subscriptions, made anew as REST takes them whenever they are asked for, and events."""

    forms: Callable[[], Iterator[dict[str, Any]]]
    payloads: Sequence[bytes]


def run(
    size: Size, amounts: tuple[int, float, int], progress: Callable[[str], None]
) -> dict[str, object]:
    """Herald against a pass-through.

    amounts   rounds, seconds of latency, writes
    """
    rounds, latency_s, writes = amounts

    def measure(stack: Stack, load: Load, records: Sequence[int]) -> dict[str, object]:
        plan = pipeline.Plan(rounds, latency_s, writes, sum(records))
        return pipeline.bench(stack, load.payloads, plan, progress)

    return _on_stage(size, progress, measure)


def compare_deliveries(
    size: Size, amounts: tuple[int, float], progress: Callable[[str], None]
) -> dict[str, object]:
    """exactly_once against at_least_once; see `run`."""

    def measure(stack: Stack, load: Load, records: Sequence[int]) -> dict[str, object]:
        return delivery.bench(stack, load.payloads, records, amounts, progress)

    return _on_stage(size, progress, measure)


def _on_stage(
    size: Size,
    progress: Callable[[str], None],
    measure: Callable[[Stack, Load, Sequence[int]], dict[str, object]],
) -> dict[str, object]:
    """Start a stack on free ports in a folder of its own, register, measure, stop it."""
    progress(f"drawing {size.workload}")
    load = (_flights if size.workload == "flights" else _ads)(size)
    progress(f"counting with {REFERENCE} how many notifications must come out")
    records = records_of(load, size.mode)
    settings = StackSettings().on_free_ports()
    with tempfile.TemporaryDirectory(prefix="herald-bench-") as folder:
        progress("starting Kafka, Valkey, the API and Spark")
        with Stack(Path(folder), settings) as stack:
            progress("registering the subscriptions")
            forms = ({**form, "mode": size.mode} for form in load.forms())
            registered = _register(f"http://127.0.0.1:{settings.api_port}", forms)
            progress("waiting until snapshots and the API have caught up")
            _settle(stack)
            figures = measure(stack, load, records)
    told = {"workload": size.workload, "mode": size.mode, "subscriptions": registered}
    return told | figures


def _settle(stack: Stack) -> None:
    """Wait until what follows the writes has caught up, so that a core more is there to measure."""
    began = time.monotonic()
    while True:
        watch = Stopwatch(stack)
        time.sleep(QUIET_S)
        used = watch.seconds()
        if sum(used.get(role, 0.0) for role in FOLLOWERS) < BUSY_SHARE_MAX * QUIET_S:
            return
        if time.monotonic() - began > LIVE_TIMEOUT_S:
            raise RuntimeError(
                f"{' and '.join(FOLLOWERS)} are still busy with the subscriptions after "
                f"{LIVE_TIMEOUT_S:g} s"
            )


def _flights(size: Size) -> Load:
    table = flights.load()
    drawn = list(generated.generate(table, size.subscriptions))
    payloads = flights.payloads(table.slice(0, size.events))
    return Load(lambda: generated.forms(drawn), payloads)


def _ads(size: Size) -> Load:
    parameters = replace(
        begen.ADS,
        subscriptions=size.subscriptions,
        events=size.events,
        match_probability=size.matches / size.subscriptions,
    )
    drawn = begen.generate("ads", parameters)
    return Load(
        lambda: ({"id": one.id, "filter": to_json(one.filter)} for one in drawn.subscriptions),
        drawn.payloads,
    )


def records_of(load: Load, mode: str) -> list[int]:
    """How many notifications each event must have."""
    subscriptions = (Subscription(form["id"], filter_of(form)) for form in load.forms())
    index = get(REFERENCE).build(subscriptions)
    counts: list[int] = []
    for payloads in batches_of(load.payloads):
        events = decode_payloads(payloads, index.vocabulary).events
        matches = np.diff(index.match(events, Instant(0, 0)).start)
        counts += (matches.clip(max=1) if mode == Mode.COMPACT.value else matches).tolist()
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
