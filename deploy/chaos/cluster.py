"""Cluster: Spark's own cluster manager as processes, with two workers that take each other for far.

Spark gives a slow task to a second executor only on another host, so each worker has an address of
its own in 127.0.0.0/8. All carry the driver's mark, so whoever stops the driver stops them, too.
"""

from __future__ import annotations

import socket
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pyspark

from deploy.chaos.injection import await_true
from deploy.environment import find_java, free_port
from deploy.processes import SERVICE_MARK, spawn, stop
from deploy.state import log_file

HOSTS = ("127.0.0.2", "127.0.0.3")
WORKER_MEMORY = "1g"
GRACE_S = 10.0
PACKAGE = "org.apache.spark.deploy"


@contextmanager
def cluster(
    folder: Path, environment: Mapping[str, str], options: Mapping[str, str]
) -> Iterator[dict[str, str]]:
    """A master and two workers of one core: what a driver needs of them in its environment.

    environment   of a driver; executors have it, too.
    options       of Spark, for the driver beside its own.
    """
    home, port = Path(pyspark.__file__).parent, free_port()
    master = f"spark://127.0.0.1:{port}"
    shared = {**environment, "SPARK_HOME": str(home), SERVICE_MARK: "driver"}
    shared["SPARK_SCALA_VERSION"] = scala_version(home)
    java = [find_java(), "-Xmx256m", "-cp", f"{home / 'jars'}/*"]
    log = log_file(folder, "cluster")
    work = ["--cores", "1", "--memory", WORKER_MEMORY, "--work-dir", str(folder / "work")]
    where = ["--host", "127.0.0.1", "--port", str(port), "--webui-port", "0"]
    with ExitStack() as exits:

        def begin(command: list[str], own: Mapping[str, str]) -> None:
            exits.callback(stop, spawn([*java, *command], own, log, folder), GRACE_S)

        begin([f"{PACKAGE}.master.Master", *where], shared)
        await_true(lambda: answers(port), "the cluster's master does not answer")
        for host in HOSTS:
            command = [f"{PACKAGE}.worker.Worker", "--host", host, "--webui-port", "0", *work]
            begin([*command, master], {**shared, "SPARK_LOCAL_IP": host})
        yield {"HERALD_MASTER": master, "SPARK_CONF_DIR": str(write_options(folder, options))}


def scala_version(home: Path) -> str:
    """What a worker asks for before it starts an executor, such as 2.13."""
    (library,) = (home / "jars").glob("scala-library-*.jar")
    return ".".join(library.stem.removeprefix("scala-library-").split(".")[:2])


def write_options(folder: Path, options: Mapping[str, str]) -> Path:
    """The folder in which Spark finds these options."""
    conf = (folder / "spark-conf").absolute()
    conf.mkdir(exist_ok=True)
    lines = [f"{name} {value}\n" for name, value in options.items()]
    (conf / "spark-defaults.conf").write_text("".join(lines), encoding="utf-8")
    return conf


def answers(port: int) -> bool:
    """Whether somebody listens there."""
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex(("127.0.0.1", port)) == 0
