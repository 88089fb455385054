"""Jar files: resolved once by coordinates, checked against a lock, then used as plain files.

Spark's own `--packages` asks the repository again at every start and trusts what it finds. Here the
Ivy that ships with pyspark runs once a machine; afterwards only sha256 sums are computed.

The connector and the broker are two class paths: they hold different versions of the same clients.
`python -m deploy.jars --write-lock` renews deploy/jars.lock after an edit of its coordinates.
"""

from __future__ import annotations

import argparse
import fcntl
import hashlib
import importlib.util
import os
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from xml.sax.saxutils import quoteattr

from deploy.environment import UserError, cache_dir, find_java

LOCK_PATH = Path(__file__).resolve().parent / "jars.lock"
RESOLVE_TIMEOUT_S = 900


@dataclass(frozen=True)
class JarSet:
    """One class path: what to ask for, what to leave out, and the sha256 of every file."""

    name: str
    coordinates: tuple[str, ...]
    excluded_groups: tuple[str, ...]
    sums: dict[str, str]

    @property
    def folder(self) -> Path:
        """Where the files lie; another lock means another folder, so checkouts do not quarrel."""
        content = "\n".join(f"{sha256} {file}" for file, sha256 in sorted(self.sums.items()))
        digest = hashlib.sha256(content.encode()).hexdigest()[:12]
        return cache_dir() / "jars" / f"{self.name}-{digest}"


def connector_dir(log: Path) -> Path:
    """The folder with Spark's Kafka connector, complete and checked."""
    return ensure(read_lock()["connector"], log)


def broker_dir(log: Path) -> Path:
    """The folder with the Kafka broker, complete and checked."""
    return ensure(read_lock()["broker"], log)


def read_lock(path: Path = LOCK_PATH) -> dict[str, JarSet]:
    """The jar sets of the lock file by name."""
    return {
        name: JarSet(
            name,
            tuple(table["coordinates"]),
            tuple(table["excluded_groups"]),
            dict(table["sha256"]),
        )
        for name, table in tomllib.loads(path.read_text(encoding="utf-8")).items()
    }


def ensure(jars: JarSet, log: Path) -> Path:
    """Return the set's folder; fetch it when a file lacks or differs. Safe for many callers."""
    if not damaged_files(jars, jars.folder):
        return jars.folder
    java = find_java()
    jars.folder.parent.mkdir(parents=True, exist_ok=True)
    with exclusive(jars.folder.parent / "lock"):
        if damaged_files(jars, jars.folder):  # else another caller was first
            print(f"herald: fetching the {jars.name}'s jar files (once)", file=sys.stderr)
            with tempfile.TemporaryDirectory(dir=jars.folder.parent) as temporary:
                fetched = resolve(jars, java, Path(temporary), log)
                refuse_wrong_sums(jars, fetched, log)
                publish(jars, fetched)
    return jars.folder


def damaged_files(jars: JarSet, folder: Path) -> list[str]:
    """Names of the set's files that lack in a folder or do not have the locked sum."""
    return [file for file, sha256 in jars.sums.items() if sum_of(folder / file) != sha256]


def sum_of(path: Path) -> str | None:
    """A file's sha256, or None when it cannot be read."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        return None


def refuse_wrong_sums(jars: JarSet, fetched: Path, log: Path) -> None:
    """Raise when the repository served something else than the lock holds."""
    wrong = damaged_files(jars, fetched)
    if wrong:
        raise UserError(
            f"the fetched {wrong[0]} does not have the sha256 of deploy/jars.lock; look at your "
            f"Maven mirror, or renew the lock if you changed its coordinates (details: {log})."
        )


def publish(jars: JarSet, fetched: Path) -> None:
    """Move checked files into place one by one, so that a running reader never meets half a jar."""
    jars.folder.mkdir(exist_ok=True)
    for file in jars.sums:
        os.replace(fetched / file, jars.folder / file)


@contextmanager
def exclusive(path: Path) -> Iterator[None]:
    """Hold a file lock that the kernel frees even when this process is killed."""
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def resolve(jars: JarSet, java: str, workspace: Path, log: Path) -> Path:
    """Run Ivy in an empty workspace and return the folder with all files it found."""
    module, fetched = workspace / "ivy.xml", workspace / "fetched"
    module.write_text(ivy_module(jars), encoding="utf-8")
    command = [java, "-cp", str(ivy_jar()), "org.apache.ivy.Main"]
    if settings := os.environ.get("HERALD_IVY_SETTINGS"):
        command += ["-settings", settings]
    command += ["-cache", str(workspace / "cache"), "-ivy", str(module), "-confs", "default"]
    command += ["-types", "jar", "bundle"]
    command += ["-retrieve", f"{fetched}/[artifact]-[revision](-[classifier]).[ext]"]
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("ab") as output:
        try:
            code = subprocess.run(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                timeout=RESOLVE_TIMEOUT_S,
            ).returncode
        except subprocess.TimeoutExpired:
            code = -1
    if code != 0:
        raise UserError(
            f"the jar files {', '.join(jars.coordinates)} cannot be downloaded from here; connect "
            "this machine to a Maven repository, or name a mirror in an Ivy settings file by "
            f"HERALD_IVY_SETTINGS (details: {log})."
        )
    return fetched


def ivy_module(jars: JarSet) -> str:
    """The module description that asks for the set's coordinates and all they need at run time."""
    lines = ['<ivy-module version="2.0">', '<info organisation="herald" module="jars"/>']
    lines += ['<configurations><conf name="default"/></configurations>', "<dependencies>"]
    for coordinate in jars.coordinates:
        group, artifact, version = map(quoteattr, coordinate.split(":"))
        lines.append(
            f'<dependency org={group} name={artifact} rev={version} conf="default-&gt;default"/>'
        )
    lines += [f"<exclude org={quoteattr(group)}/>" for group in jars.excluded_groups]
    return "\n".join([*lines, "</dependencies>", "</ivy-module>"])


def ivy_jar() -> Path:
    """The Ivy that ships with pyspark."""
    return next(spark_jars_dir().glob("ivy-*.jar"))


def spark_jars_dir() -> Path:
    """Spark's own jar files, found without importing pyspark."""
    spec = importlib.util.find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise UserError("pyspark is not installed here; run this through ./herald.")
    return Path(spec.origin).parent / "jars"


def write_lock(path: Path = LOCK_PATH) -> None:
    """Resolve the lock's coordinates anew and write the sums of what Spark does not ship itself."""
    text = ["# Written by `python -m deploy.jars --write-lock`; edit coordinates only."]
    for jars in read_lock(path).values():
        with tempfile.TemporaryDirectory() as temporary:
            workspace = Path(temporary)
            fetched = resolve(jars, find_java(), workspace, workspace / "log")
            shipped = {file.name for file in spark_jars_dir().iterdir()}
            if jars.name == "broker":
                shipped = set()  # the broker runs without Spark's jars
            sums = {
                file.name: sum_of(file) or ""
                for file in sorted(fetched.iterdir())
                if file.name not in shipped
            }
        text += lock_section(replace(jars, sums=sums))
    path.write_text("\n".join(text) + "\n", encoding="utf-8")


def lock_section(jars: JarSet) -> list[str]:
    """One jar set as lines of TOML."""
    return [
        "",
        f"[{jars.name}]",
        "coordinates = [",
        *(f'    "{coordinate}",' for coordinate in jars.coordinates),
        "]",
        "excluded_groups = [",
        *(f'    "{group}",' for group in jars.excluded_groups),
        "]",
        f"[{jars.name}.sha256]",
        *(f'"{file}" = "{sha256}"' for file, sha256 in jars.sums.items()),
    ]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m deploy.jars")
    parser.add_argument("--write-lock", action="store_true", required=True)
    parser.parse_args()
    write_lock()
