"""Class archive: Spark's classes, parsed and checked once, for every later JVM to map.

A driver loads some ten thousand classes before its first batch, which takes half of its start. Java
keeps them in a file that fits one virtual machine and one class path, so it lies beside the jar
files, in the virtual environment. A JVM whose class path or version differs does without it.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tempfile
from contextlib import suppress
from pathlib import Path

from deploy.environment import child_environment, find_java
from deploy.jars import exclusive, spark_jars_dir

SAMPLE = Path(__file__).resolve().parent / "spark_sample.py"
TIMEOUT_S = 300
JAVA_OPTIONS = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Xlog:cds*=off"
"""The collector of the driver, for an archive fits one; the quick compiler; no word on each class
that cannot be kept."""


def spark_archive(log: Path) -> Path | None:
    """The archive of this environment, made if there is none yet; None where none can be made.

    A start without it takes longer and is otherwise the same, so a failure stands in the log alone,
    and is not repeated at each start.
    """
    archive = archive_path(find_java())
    folder, failed = archive.parent, archive.with_suffix(".failed")
    if not archive.exists() and not failed.exists() and os.access(folder, os.W_OK):
        with exclusive(folder / "herald-spark.lock"):
            if not archive.exists() and not failed.exists():  # else another caller was first
                for older in folder.glob("herald-spark-*.*"):
                    older.unlink()
                make(archive, log)
                if not archive.exists():
                    failed.touch()
    return archive if archive.exists() else None


def archive_path(java: str) -> Path:
    """Where the archive of a Java and of the Spark of this environment lies."""
    digest = hashlib.sha256(SAMPLE.read_bytes())
    for file in (Path(java).resolve(), *sorted(spark_jars_dir().glob("*.jar"))):
        stat = file.stat()  # of jar files, Java compares the same
        digest.update(f"{file} {stat.st_size} {stat.st_mtime_ns}\n".encode())
    return Path(sys.prefix) / f"herald-spark-{digest.hexdigest()[:12]}.jsa"


def make(archive: Path, log: Path) -> None:
    """Run a sample of what a driver does, and have its JVM leave its classes in `archive`."""
    print("herald: writing an archive of Spark's classes (once)", file=sys.stderr)
    log.parent.mkdir(parents=True, exist_ok=True)
    spark_home = spark_jars_dir().parent
    with tempfile.TemporaryDirectory(dir=archive.parent) as workspace, log.open("ab") as output:
        draft = Path(workspace) / "spark.jsa"
        options = f"-XX:ArchiveClassesAtExit={draft} {JAVA_OPTIONS}"
        command = [str(spark_home / "bin" / "spark-submit"), "--driver-java-options", options]
        with suppress(subprocess.TimeoutExpired):
            subprocess.run(
                [*command, str(SAMPLE), workspace],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env={**child_environment(), "SPARK_HOME": str(spark_home)},
                timeout=TIMEOUT_S,
            )
        with suppress(FileNotFoundError):
            draft.rename(archive)
