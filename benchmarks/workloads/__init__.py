"""Workloads of the papers: seeded generators with their own parameters.

Each module draws the subscriptions and events of one paper's evaluation, by its published
parameters; sizes are arguments, for they have to fit the machine. The same seed gives the same
workload, on every machine.
"""

from benchmarks.workloads.workload import Workload

__all__ = ["Workload"]
