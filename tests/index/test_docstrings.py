from __future__ import annotations

import doctest
import importlib
from pathlib import Path

import pytest

import index.model

PACKAGE = Path(index.model.__file__).parent
MODULES = sorted(
    ".".join(("index", *path.relative_to(PACKAGE).with_suffix("").parts))
    for path in PACKAGE.rglob("*.py")
    if path.name != "__init__.py" and ">>>" in path.read_text(encoding="utf-8")
)


@pytest.mark.parametrize("name", MODULES)
def test_the_examples_in_docstrings_hold(name: str) -> None:
    results = doctest.testmod(importlib.import_module(name), optionflags=doctest.ELLIPSIS)
    assert results.attempted
    assert not results.failed
