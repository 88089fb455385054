"""Source: Spark with its Kafka connector, the topics, and where a query begins and a batch ends."""

from __future__ import annotations

import os
import re
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import orjson
from pyspark.sql import DataFrame, SparkSession

from streaming.decode import COLUMNS
from streaming.pins import Offsets
from streaming.scratch import open_scratch
from streaming.settings import StreamingSettings
from streaming.topics import partitions_of

CHECKPOINT_MANAGER = (
    "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
)
"""The default one starts a shell for each file's permissions: a third of a small batch's time."""
FETCH_WAIT_MS = 10
"""How long the broker keeps a fetch at the end of a partition; with Kafka's 500 ms the last event
before a pause, and each that comes alone, takes so much longer."""
TASK_ATTEMPTS = 4
LOCAL_OPTIONS = (
    "spark.driver.host",
    "spark.driver.bindAddress",
    "spark.local.dir",
)
"""What holds for a master on this machine only; a cluster has its own."""


class SourceError(Exception):
    """The query cannot begin or go on here: what is wrong, and how to mend it."""


def open_session(settings: StreamingSettings) -> SparkSession:
    """A Spark session for one query; its own log goes to a file."""
    settings.log_dir.mkdir(parents=True, exist_ok=True)
    os.environ["PYSPARK_PYTHON"] = sys.executable
    repository = str(Path(__file__).resolve().parent.parent)
    paths = os.environ.get("PYTHONPATH", "")
    if repository not in paths.split(os.pathsep):
        os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [repository, paths]))
    scratch = open_scratch(settings.scratch_dir)
    builder = SparkSession.builder.master(retrying(settings.master)).appName(settings.query_name)
    for name, value in session_options(settings, scratch).items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def retrying(master: str) -> str:
    """A local master that tries failed tasks again, as a cluster does and Spark's own does not."""
    found = re.fullmatch(r"local\[([0-9]+|\*)\]", master)
    return f"local[{found[1]},{TASK_ATTEMPTS}]" if found else master


def session_options(settings: StreamingSettings, scratch: Path) -> dict[str, str]:
    """Spark's configuration, with the reason where it is not plain."""
    java_options = [
        f'"-Dlog4j2.configurationFile={write_log_options(settings)}"',
        f'"-Djava.io.tmpdir={scratch}"',
        # Hadoop starts a shell for each checkpoint file's permissions; this is its quickest way.
        "-Djdk.lang.Process.launchMechanism=VFORK",
        # A heap that is taken at once and collected in place stays as large as it is.
        f"-Xms{settings.driver_memory} -XX:+AlwaysPreTouch -XX:+UseSerialGC",
    ]
    if settings.class_archive is not None:
        java_options.append(f'"-XX:SharedArchiveFile={settings.class_archive.absolute()}"')
    options = {
        "spark.driver.memory": settings.driver_memory,
        "spark.executor.memory": settings.executor_memory,
        # A batch's packed output passes through the driver, so the limit is the heap itself.
        "spark.driver.maxResultSize": "0",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.extraJavaOptions": " ".join(java_options),
        "spark.local.dir": str(scratch),
        "spark.ui.enabled": str(settings.spark_ui).lower(),
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.session.timeZone": "UTC",
        # One stage without a shuffle: there is nothing to adapt, and looking costs time.
        "spark.sql.adaptive.enabled": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.streaming.checkpointFileManagerClass": CHECKPOINT_MANAGER,
        "spark.sql.streaming.minBatchesToRetain": str(settings.batches_retained),
        "spark.sql.streaming.metricsEnabled": "false",
        "spark.sql.execution.arrow.maxRecordsPerBatch": str(settings.arrow_rows_max),
        "spark.python.worker.reuse": "true",
        "spark.python.daemon.module": "streaming.daemon",
        # Over TCP each task waits some 35 ms for its first bytes (Nagle meets delayed ACK).
        "spark.python.unix.domain.socket.enabled": "true",
        # Not in the scratch folder: the path of a socket may have 107 bytes, and its file is empty.
        "spark.python.unix.domain.socket.dir": tempfile.gettempdir(),
    }
    if not settings.master.startswith("local"):
        for name in LOCAL_OPTIONS:
            del options[name]
        # Every host has it, and Spark's own choice is the scratch folder here, too.
        options["spark.python.unix.domain.socket.dir"] = "/tmp"
    if "NUMBA_CACHE_DIR" in os.environ:
        options["spark.executorEnv.NUMBA_CACHE_DIR"] = os.environ["NUMBA_CACHE_DIR"]
    options["spark.executorEnv.PYTHONPATH"] = os.environ["PYTHONPATH"]
    jars = connector_jars(settings.jars_dir)
    if jars:
        options["spark.jars"] = ",".join(jars)
    return options


def connector_jars(folder: Path | None) -> list[str]:
    """The connector's jar files; none when the cluster has them on its class path."""
    if folder is None:
        return []
    jars = sorted(str(path.absolute()) for path in folder.glob("*.jar"))
    if not jars:
        raise SourceError(
            f"HERALD_JARS_DIR={folder} holds no jar files; ./herald fetches them, or unset it "
            "where Spark has its Kafka connector already."
        )
    return jars


def write_log_options(settings: StreamingSettings) -> Path:
    """The configuration of Spark's log: warnings to a file of bounded size."""
    log = (settings.log_dir / "spark.log").absolute()
    lines = [
        "rootLogger.level = warn",
        "rootLogger.appenderRef.file.ref = file",
        "appender.file.type = RollingFile",
        "appender.file.name = file",
        f"appender.file.fileName = {log}",
        f"appender.file.filePattern = {log}.%i",
        "appender.file.layout.type = PatternLayout",
        "appender.file.layout.pattern = %d %p %c{1}: %m%n%ex",
        "appender.file.policies.type = SizeBasedTriggeringPolicy",
        "appender.file.policies.size = 20MB",
        "appender.file.strategy.type = DefaultRolloverStrategy",
        "appender.file.strategy.max = 2",
    ]
    path = (settings.log_dir / "spark-log.properties").absolute()
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def read_events(
    session: SparkSession, settings: StreamingSettings, committed: Offsets, limit: int
) -> DataFrame:
    """The stream of records with the columns that decoding needs, `limit` a batch."""
    reader = session.readStream.format("kafka").options(
        **{
            "kafka.bootstrap.servers": settings.kafka_bootstrap,
            "subscribe": ",".join(settings.events_topics),
            "startingOffsets": starting_offsets(settings, committed),
            "maxOffsetsPerTrigger": str(limit),
            "includeHeaders": "true",
            "failOnDataLoss": "true",
            "kafka.isolation.level": "read_committed",
            # After each poll Spark asks the broker twice for the ends of the partition.
            "kafka.max.poll.records": str(settings.arrow_rows_max),
            # It has to wait for the answer to a fetch, and the last event of many has no successor
            # that would end it.
            "kafka.fetch.max.wait.ms": str(FETCH_WAIT_MS),
            # Herald's own group is for its committed offsets; Spark must not join it.
            "groupIdPrefix": f"{settings.query_name}-source",
        }
    )
    return reader.load().select(*COLUMNS)


def starting_offsets(
    settings: StreamingSettings,
    committed: Offsets,
    count: Callable[[StreamingSettings], dict[str, int]] = partitions_of,
) -> str:
    """Where a query begins that has no checkpoint: after what it has committed, if it ever has."""
    if not any(committed.values()):
        return settings.starting_offsets
    default = -2 if settings.starting_offsets == "earliest" else -1
    partitions = count(settings)
    offsets = {
        topic: {
            str(partition): committed.get(topic, {}).get(partition, default)
            for partition in range(count)
        }
        for topic, count in partitions.items()
    }
    return orjson.dumps(offsets).decode()
