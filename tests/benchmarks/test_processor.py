"""Processor time by process."""

from __future__ import annotations

import os
import time

import pytest

from benchmarks.pipeline import Measured
from benchmarks.processor import CLIENTS, processor_s, spent
from deploy.processes import ProcessRecord

ONE, OTHER, NEW = (ProcessRecord(pid, "") for pid in (1, 2, 3))


def test_what_was_used_is_summed_by_role_and_what_is_new_counts_from_its_start() -> None:
    before = {("worker", ONE): 1.0, ("worker", OTHER): 2.0, (CLIENTS, None): 5.0}
    after = {("worker", ONE): 1.5, ("worker", NEW): 0.25, (CLIENTS, None): 6.0}
    assert spent(before, after) == {"worker": 0.75, CLIENTS: 1.0}


def test_the_kernel_is_asked() -> None:
    used = processor_s(os.getpid())
    deadline = time.process_time() + 0.1
    while time.process_time() < deadline:
        pass
    assert used + 0.05 < processor_s(os.getpid())
    assert processor_s(2**22 + 1) == 0.0, "no process has such a number"


def test_figures_are_medians_of_rounds() -> None:
    rounds = [{"worker": 1.0, "Kafka": 2.0}, {"worker": 3.0, "Kafka": 2.0}, {"worker": 2.0}]
    figures = Measured([], rounds).processor_us(1_000_000)
    assert figures == pytest.approx({"worker": 2.0, "Kafka": 2.0})
