"""The stage of `./herald bench pipeline`: a stack of its own with the demo's subscriptions."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path

from benchmarks import pipeline
from deploy.demo import flights, generated
from deploy.demo.written import WRITTEN
from deploy.settings import StackSettings
from deploy.stack import Stack
from deploy.traffic import Registrar


def run(
    generated_count: int,
    event_count: int,
    amounts: tuple[int, float, int],
    progress: Callable[[str], None],
) -> dict[str, object]:
    """Start a stack on free ports in a folder of its own, register, measure, stop it."""
    rounds, latency_s, writes = amounts
    progress("reading flights")
    table = flights.load()
    drawn = list(generated.generate(table, generated_count))
    payloads = flights.payloads(table.slice(0, event_count))
    settings = StackSettings().on_free_ports()
    with tempfile.TemporaryDirectory(prefix="herald-bench-") as folder:
        progress("starting Kafka, Valkey, the API and Spark")
        with Stack(Path(folder), settings) as stack:
            progress(f"registering {len(WRITTEN) + len(drawn):,} subscriptions")
            registrar = Registrar(f"http://127.0.0.1:{settings.api_port}")
            try:
                subscriptions = list(registrar.register(generated.forms(drawn)))
                registrar.wait_live()
            finally:
                registrar.close()
            plan = pipeline.Plan(rounds, latency_s, writes)
            figures = pipeline.bench(stack, payloads, plan, progress)
    return {"subscriptions": subscriptions[-1], **figures}
