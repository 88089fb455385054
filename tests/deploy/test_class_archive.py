"""The archive of Spark's classes is made once for a Java and a Spark, and nothing depends on it."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from deploy import class_archive
from deploy.class_archive import archive_path, spark_archive


@pytest.fixture(autouse=True)
def environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A virtual environment with one jar file, and a Java that is any file."""
    jar = tmp_path / "jars" / "spark.jar"
    jar.parent.mkdir()
    jar.write_bytes(b"classes")
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    monkeypatch.setattr(class_archive, "spark_jars_dir", lambda: jar.parent)
    monkeypatch.setattr(class_archive, "find_java", lambda: sys.executable)
    return tmp_path


def made_by(monkeypatch: pytest.MonkeyPatch, works: bool) -> list[Path]:
    """The archives that were tried to make from now on."""
    tried: list[Path] = []

    def make(archive: Path, log: Path) -> None:
        tried.append(archive)
        if works:
            archive.touch()

    monkeypatch.setattr(class_archive, "make", make)
    return tried


def test_it_is_made_once(environment: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tried = made_by(monkeypatch, works=True)
    assert {spark_archive(environment / "log") for _ in range(3)} == {archive_path(sys.executable)}
    assert len(tried) == 1


def test_another_jar_file_wants_another_one(
    environment: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried = made_by(monkeypatch, works=True)
    before = spark_archive(environment / "log")
    os.utime(environment / "jars" / "spark.jar", (1, 1))
    after = spark_archive(environment / "log")
    assert tried == [before, after] and before != after
    assert list(environment.glob("*.jsa")) == [after], "the old one fits nothing any more"


def test_a_failure_is_no_obstacle_and_not_repeated(
    environment: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried = made_by(monkeypatch, works=False)
    assert [spark_archive(environment / "log") for _ in range(3)] == [None] * 3
    assert len(tried) == 1


def test_none_is_made_where_nothing_may_be_written(
    environment: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried = made_by(monkeypatch, works=True)
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    assert spark_archive(environment / "log") is None
    assert not tried


def test_what_cannot_run_leaves_its_reason(
    environment: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    submit = environment / "bin" / "spark-submit"
    submit.parent.mkdir()
    submit.write_text("#!/bin/sh\necho no room >&2\nexit 1\n")
    submit.chmod(0o755)
    assert spark_archive(environment / "log") is None
    assert "no room" in (environment / "log").read_text()
