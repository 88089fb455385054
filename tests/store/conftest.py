"""The real store's server: one for all tests of a session, or one that a test may break."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.store.server import StoreServer


@pytest.fixture(scope="session")
def shared_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StoreServer]:
    """A server nobody breaks; tests keep apart by namespaces."""
    yield from _served(tmp_path_factory.mktemp("valkey"))


@pytest.fixture
def own_server(tmp_path: Path) -> Iterator[StoreServer]:
    """A server of this test alone."""
    yield from _served(tmp_path)


def _served(folder: Path) -> Iterator[StoreServer]:
    from tests.store.server import StoreServer  # needs packages that a laptop may lack

    server = StoreServer(folder)
    server.start()
    yield server
    server.stop()
