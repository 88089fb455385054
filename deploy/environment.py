"""What commands need to know of this machine: folders, Java, free ports, the kernels' cache."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent
JAVA_VERSION_MIN = 17


class UserError(Exception):
    """Something the person at the keyboard can mend: one sentence that says what, and how."""


def state_dir() -> Path:
    """Where a stack keeps its records, data and logs: HERALD_STATE_DIR, or .herald in the repo."""
    return Path(os.environ.get("HERALD_STATE_DIR") or REPOSITORY / ".herald").absolute()


def cache_dir() -> Path:
    """Downloads and compiled kernels, shared by all checkouts: HERALD_CACHE or ~/.cache/herald."""
    chosen = os.environ.get("HERALD_CACHE")
    if chosen:
        return Path(chosen).absolute()
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "herald"


def numba_cache_dir() -> Path:
    """A folder for compiled kernels that a change of any source with kernels makes a new one.

    numba looks at the file of a cached function alone, so a kernel that calls an edited kernel of
    another file would go on with the old code.
    """
    digest = hashlib.sha256(sys.version.encode())
    for source in kernel_sources():
        digest.update(source.relative_to(REPOSITORY).as_posix().encode())
        digest.update(source.read_bytes())
    return cache_dir() / "numba" / digest.hexdigest()[:16]


def kernel_sources() -> Iterator[Path]:
    """The Python sources of `index`, in a fixed order, and of the kernels that are not there."""
    yield from sorted((REPOSITORY / "index").rglob("*.py"))
    yield from (REPOSITORY / "streaming").glob("byte_columns.py")


def child_environment() -> dict[str, str]:
    """The environment of this process, completed for a child with our packages or Spark in it."""
    environment = dict(os.environ)
    paths = environment.get("PYTHONPATH", "").split(os.pathsep)
    if str(REPOSITORY) not in paths:
        environment["PYTHONPATH"] = os.pathsep.join(filter(None, [str(REPOSITORY), *paths]))
    environment.setdefault("NUMBA_CACHE_DIR", str(numba_cache_dir()))
    environment.pop("SPARK_HOME", None)  # pyspark would start the Spark there, not its own
    environment.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    environment["PYSPARK_PYTHON"] = sys.executable
    environment["PYSPARK_DRIVER_PYTHON"] = sys.executable
    return environment


def find_java() -> str:
    """The path of a Java 17 or newer: JAVA_HOME's when that is set, else the one on PATH."""
    home = os.environ.get("JAVA_HOME")
    path = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    where = f"JAVA_HOME={home}" if home else "PATH"
    how = (
        f"install Java {JAVA_VERSION_MIN} or newer (Debian, Ubuntu: apt-get install "
        f"openjdk-{JAVA_VERSION_MIN}-jre-headless) or set JAVA_HOME to one"
    )
    if path is None or not os.access(path, os.X_OK):
        raise UserError(f"Java was not found by {where}; {how}.")
    version = java_version(path)
    if version is None:
        raise UserError(f"{path} -version does not work; {how}.")
    if version < JAVA_VERSION_MIN:
        raise UserError(f"{path} is Java {version}, which is too old; {how}.")
    return path


def java_version(path: str) -> int | None:
    """The feature version of a java binary, or None when it does not tell."""
    try:
        answer = subprocess.run([path, "-version"], capture_output=True, text=True, timeout=30)
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = re.search(r'version "(\d+)(?:\.(\d+))?', answer.stderr + answer.stdout)
    if found is None:
        return None
    first, second = int(found[1]), found[2]
    # Up to Java 8 the version was written 1.8.
    return int(second) if first == 1 and second else first


def free_port() -> int:
    """A TCP port of 127.0.0.1 that nothing listens on at this moment."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def is_port_free(port: int) -> bool:
    """Whether a server could listen on this port of 127.0.0.1."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
