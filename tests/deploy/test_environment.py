"""What commands are told of the machine, and what a person is told when it will not do."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from deploy import environment
from deploy.environment import (
    UserError,
    child_environment,
    find_java,
    free_port,
    is_port_free,
    java_version,
    numba_cache_dir,
)


def fake_java(folder: Path, version_line: str) -> Path:
    java = folder / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(f"#!/bin/sh\necho '{version_line}' >&2\n")
    java.chmod(0o755)
    return java


@pytest.mark.parametrize(
    ("line", "version"),
    [
        ('openjdk version "17.0.15" 2025-04-15', 17),
        ('openjdk version "21" 2023-09-19', 21),
        ('java version "1.8.0_402"', 8),
        ('openjdk version "25-ea" 2025-09-16', 25),
        ("no such file", None),
    ],
)
def test_java_tells_its_version(tmp_path: Path, line: str, version: int | None) -> None:
    assert java_version(str(fake_java(tmp_path, line))) == version


def test_java_home_comes_before_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    java = fake_java(tmp_path, 'openjdk version "21.0.1"')
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert find_java() == str(java)


def test_an_old_java_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_java(tmp_path, 'openjdk version "11.0.2"')
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(UserError, match="is Java 11, which is too old; install Java 17 or newer"):
        find_java()


def test_a_missing_java_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UserError, match="Java was not found by PATH; install Java 17") as caught:
        find_java()
    assert str(caught.value).count("\n") == 0


def test_compiled_kernels_follow_every_source(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(environment, "REPOSITORY", tmp_path)
    leaf = tmp_path / "index" / "kernels" / "leaf.py"
    leaf.parent.mkdir(parents=True)
    leaf.write_text("a = 1\n")
    first = numba_cache_dir()
    assert numba_cache_dir() == first
    leaf.write_text("a = 2\n")
    second = numba_cache_dir()
    leaf.rename(leaf.with_name("moved.py"))
    third = numba_cache_dir()
    beside = tmp_path / "streaming" / "byte_columns.py"
    beside.parent.mkdir()
    beside.write_text("a = 1\n")
    assert len({first, second, third, numba_cache_dir()}) == 4


def test_every_kernel_is_in_a_source_that_is_followed() -> None:
    sources = environment.REPOSITORY.glob("s*/*.py")
    kernels = {path for path in sources if "from numba import" in path.read_text()}
    assert kernels
    assert kernels <= set(environment.kernel_sources())


def test_children_find_our_packages_and_this_python(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", "/elsewhere")
    monkeypatch.setenv("SPARK_HOME", "/another/spark")
    found = child_environment()
    assert found["PYTHONPATH"].split(os.pathsep) == [str(environment.REPOSITORY), "/elsewhere"]
    assert "SPARK_HOME" not in found
    assert Path(found["PYSPARK_PYTHON"]).exists()


def test_a_taken_port_is_not_free() -> None:
    port = free_port()
    assert is_port_free(port)
    with socket.socket() as server:
        server.bind(("127.0.0.1", port))
        server.listen()
        assert not is_port_free(port)
