"""The names that `index` exports."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import index


@pytest.mark.parametrize("name", index.__all__)
def test_every_exported_name_is_there_and_says_what_it_is(name: str) -> None:
    assert getattr(index, name) is not None


def test_the_exports_are_the_ones_that_type_checkers_see() -> None:
    tree = ast.parse(Path(index.__file__).read_text(encoding="utf-8"))
    seen = {
        alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("index.")
        for alias in node.names
    }
    assert seen == set(index.__all__)


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'quick'"):
        index.quick  # noqa: B018


def test_parsing_a_filter_does_not_load_the_kernels_compiler() -> None:
    program = "import sys, index; index.parse_text('a = 1'); print('numba' in sys.modules)"
    root = Path(index.__file__).parent.parent
    told = subprocess.run(
        [sys.executable, "-c", program], cwd=root, capture_output=True, text=True, check=True
    )
    assert told.stdout.strip() == "False"


def test_the_example_of_the_package() -> None:
    documented = (index.__doc__ or "").split("\n\n")[1:3]
    code = "\n".join(block.replace("\n    ", "\n").removeprefix("    ") for block in documented)
    program, _, last = code.rpartition("\n")
    names: dict[str, object] = {}
    exec(program, names)
    expression, _, expected = last.partition("#")
    assert repr(eval(expression, names)) == expected.strip()
