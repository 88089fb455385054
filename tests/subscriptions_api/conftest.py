"""A running API for every test that asks."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.subscriptions_api.client import Api


@pytest.fixture
def api() -> Iterator[Api]:
    """An API with default settings."""
    with Api() as running:
        yield running
