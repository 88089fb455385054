"""Jar files are those of the lock, or there are none."""

from __future__ import annotations

import hashlib
import threading
from pathlib import Path
from xml.etree import ElementTree

import pytest

from deploy import jars
from deploy.environment import UserError
from deploy.jars import JarSet, damaged_files, ensure, ivy_module, read_lock

CONTENT = {"one-1.0.jar": b"first" * 1000, "two-2.0.jar": b"second" * 1000}


@pytest.fixture
def jar_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> JarSet:
    monkeypatch.setenv("HERALD_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(jars, "find_java", lambda: "java")
    sums = {name: hashlib.sha256(content).hexdigest() for name, content in CONTENT.items()}
    return JarSet("example", ("group:one:1.0",), (), sums)


@pytest.fixture
def fetches(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of the sets that were resolved, by a repository that serves CONTENT."""
    resolved: list[str] = []

    def resolve(jar_set: JarSet, java: str, workspace: Path, log: Path) -> Path:
        resolved.append(jar_set.name)
        for name, content in {**CONTENT, "unlocked-3.0.jar": b"?"}.items():
            (workspace / name).write_bytes(content)
        return workspace

    monkeypatch.setattr(jars, "resolve", resolve)
    return resolved


def test_the_lock_names_every_file_with_a_sum() -> None:
    lock = read_lock()
    assert set(lock) == {"connector", "broker"}
    for jar_set in lock.values():
        assert jar_set.coordinates
        assert all(name.endswith(".jar") and len(sha) == 64 for name, sha in jar_set.sums.items())
    assert "spark-sql-kafka-0-10_2.13-4.2.0.jar" in lock["connector"].sums
    assert "kafka_2.13-4.1.1.jar" in lock["broker"].sums


def test_the_connector_is_of_the_pinned_spark() -> None:
    pinned = (jars.LOCK_PATH.parent.parent / "requirements.in").read_text()
    version = read_lock()["connector"].coordinates[0].split(":")[2]
    assert f"pyspark=={version}" in pinned


def test_files_are_fetched_once(jar_set: JarSet, fetches: list[str], tmp_path: Path) -> None:
    for _ in range(3):
        folder = ensure(jar_set, tmp_path / "log")
    assert fetches == ["example"]
    assert {file.name: file.read_bytes() for file in folder.iterdir()} == CONTENT


@pytest.mark.parametrize("damage", ["truncated", "missing", "altered"])
def test_a_damaged_file_is_noticed_and_fetched_again(
    jar_set: JarSet, fetches: list[str], tmp_path: Path, damage: str
) -> None:
    file = ensure(jar_set, tmp_path / "log") / "two-2.0.jar"
    if damage == "missing":
        file.unlink()
    elif damage == "truncated":
        file.write_bytes(file.read_bytes()[:-1])
    else:
        file.write_bytes(file.read_bytes()[:-1] + b"?")
    assert damaged_files(jar_set, file.parent) == ["two-2.0.jar"]
    ensure(jar_set, tmp_path / "log")
    assert file.read_bytes() == CONTENT["two-2.0.jar"]
    assert fetches == ["example", "example"]


def test_many_callers_fetch_once(jar_set: JarSet, fetches: list[str], tmp_path: Path) -> None:
    callers = [threading.Thread(target=ensure, args=(jar_set, tmp_path / "log")) for _ in range(8)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert fetches == ["example"]
    assert damaged_files(jar_set, jar_set.folder) == []


def test_what_differs_from_the_lock_is_refused(
    jar_set: JarSet, fetches: list[str], tmp_path: Path
) -> None:
    jar_set.sums["two-2.0.jar"] = "0" * 64
    with pytest.raises(UserError, match=r"two-2.0.jar does not have the sha256"):
        ensure(jar_set, tmp_path / "log")
    assert not jar_set.folder.exists()


def test_without_a_repository_one_sentence_names_the_log(
    jar_set: JarSet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jars, "find_java", lambda: "false")
    monkeypatch.setattr(jars, "ivy_jar", lambda: tmp_path / "ivy.jar")
    log = tmp_path / "logs" / "jars.log"
    with pytest.raises(UserError, match=r"group:one:1\.0 cannot be downloaded") as caught:
        ensure(jar_set, log)
    assert str(log) in str(caught.value)
    assert log.exists()


def test_ivy_is_asked_for_run_time_dependencies_but_not_excluded_groups() -> None:
    module = ElementTree.fromstring(ivy_module(read_lock()["connector"]))
    dependency = module.find("dependencies/dependency")
    assert dependency is not None
    assert dependency.get("conf") == "default->default"
    assert dependency.get("name") == "spark-sql-kafka-0-10_2.13"
    excluded = [exclude.get("org") for exclude in module.findall("dependencies/exclude")]
    assert excluded == ["org.apache.hadoop"]


@pytest.mark.connected
@pytest.mark.slow
def test_a_truncated_jar_is_fetched_from_the_real_repository(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HERALD_CACHE", str(tmp_path))
    connector = read_lock()["connector"]
    connector.folder.mkdir(parents=True)
    broken = connector.folder / "kafka-clients-3.9.2.jar"
    broken.write_bytes(b"PK")
    assert jars.connector_dir(tmp_path / "log") == connector.folder
    assert damaged_files(connector, connector.folder) == []
