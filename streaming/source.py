"""Source: Spark with its Kafka connector, the topics, and where a query begins and a batch ends."""

from __future__ import annotations

import os
import re
import sys
import time
from pathlib import Path

import orjson
from confluent_kafka import Consumer, KafkaException, TopicPartition
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    ConfigResource,
    NewTopic,
)
from pyspark.sql import DataFrame, SparkSession

from streaming.decode import COLUMNS
from streaming.pins import Offsets
from streaming.settings import StreamingSettings

ADMIN_TIMEOUT_S = 30.0
CHECKPOINT_MANAGER = (
    "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
)
"""The default one starts a shell for each file's permissions: a third of a small batch's time."""
DEAD_LETTER_BYTES_MAX = 16 * 1024 * 1024
"""Of the dead letters topic when created: input may be larger than any notification."""
OFFSETS_LOG_VERSION = "v1"
TASK_ATTEMPTS = 4


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
    builder = SparkSession.builder.master(retrying(settings.master)).appName(settings.query_name)
    for name, value in session_options(settings).items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def retrying(master: str) -> str:
    """A local master that tries failed tasks again, as a cluster does and Spark's own does not."""
    found = re.fullmatch(r"local\[([0-9]+|\*)\]", master)
    return f"local[{found[1]},{TASK_ATTEMPTS}]" if found else master


def session_options(settings: StreamingSettings) -> dict[str, str]:
    """Spark's configuration, with the reason where it is not plain."""
    log_options = write_log_options(settings)
    options = {
        "spark.driver.memory": settings.driver_memory,
        "spark.executor.memory": settings.executor_memory,
        # A batch's packed output passes through the driver, so the limit is the heap itself.
        "spark.driver.maxResultSize": "0",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={log_options}",
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
    }
    if not settings.master.startswith("local"):
        for name in ("spark.driver.host", "spark.driver.bindAddress"):
            del options[name]
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
    session: SparkSession, settings: StreamingSettings, committed: Offsets
) -> DataFrame:
    """The stream of records with the columns that decoding needs."""
    reader = session.readStream.format("kafka").options(
        **{
            "kafka.bootstrap.servers": settings.kafka_bootstrap,
            "subscribe": ",".join(settings.events_topics),
            "startingOffsets": starting_offsets(settings, committed),
            "maxOffsetsPerTrigger": str(settings.max_offsets_per_trigger),
            "includeHeaders": "true",
            "failOnDataLoss": "true",
            "kafka.isolation.level": "read_committed",
            # Herald's own group is for its committed offsets; Spark must not join it.
            "groupIdPrefix": f"{settings.query_name}-source",
        }
    )
    return reader.load().select(*COLUMNS)


def starting_offsets(settings: StreamingSettings, committed: Offsets) -> str:
    """Where a query begins that has no checkpoint: after what it has committed, if it ever has."""
    if not any(committed.values()):
        return settings.starting_offsets
    default = -2 if settings.starting_offsets == "earliest" else -1
    partitions = partitions_of(settings)
    offsets = {
        topic: {
            str(partition): committed.get(topic, {}).get(partition, default)
            for partition in range(count)
        }
        for topic, count in partitions.items()
    }
    return orjson.dumps(offsets).decode()


def planned_offsets(checkpoint: Path, batch: int) -> Offsets:
    """The end of a batch as Spark planned it, from its offset log.

    The file is there before the batch runs: a version, a line of metadata, a line a source.
    """
    path = checkpoint / "offsets" / str(batch)
    try:
        version, _, planned = path.read_text(encoding="utf-8").splitlines()
        offsets = orjson.loads(planned)
        if version != OFFSETS_LOG_VERSION:
            raise ValueError(f"version {version}")
        return {
            topic: {int(partition): int(offset) for partition, offset in ends.items()}
            for topic, ends in offsets.items()
        }
    except (OSError, ValueError, AttributeError) as error:
        raise SourceError(
            f"{path} is not the offset log of one Kafka source ({error}); the checkpoint is "
            "damaged or of another query: restore it, or choose another HERALD_CHECKPOINT_DIR."
        ) from error


def admin_of(settings: StreamingSettings) -> AdminClient:
    """A client for topics."""
    return AdminClient({"bootstrap.servers": settings.kafka_bootstrap, "log_level": 0})


def ensure_topics(settings: StreamingSettings) -> None:
    """Create missing topics or refuse to start: Spark's source dies of one that lacks."""
    admin = admin_of(settings)
    try:
        known = set(admin.list_topics(timeout=ADMIN_TIMEOUT_S).topics)
    except KafkaException as error:
        raise SourceError(
            f"no Kafka broker answers at {settings.kafka_bootstrap} ({error.args[0].str()}); start "
            "one, or set HERALD_KAFKA_BOOTSTRAP."
        ) from error
    wanted = [*settings.events_topics, settings.notifications_topic, settings.dead_letters_topic]
    missing = [topic for topic in dict.fromkeys(wanted) if topic not in known]
    if missing and not settings.create_topics:
        raise SourceError(
            f"the topics {', '.join(missing)} do not exist at {settings.kafka_bootstrap}; create "
            "them, or set HERALD_CREATE_TOPICS=true."
        )
    if missing:
        create_topics(settings, admin, missing)


def create_topics(settings: StreamingSettings, admin: AdminClient, missing: list[str]) -> None:
    """Make topics and wait until the broker tells everybody of them, which takes a moment more."""
    futures = admin.create_topics([new_topic(settings, topic) for topic in missing])
    for topic, future in futures.items():
        try:
            future.result(timeout=ADMIN_TIMEOUT_S)
        except KafkaException as error:
            if error.args[0].name() != "TOPIC_ALREADY_EXISTS":
                reason = error.args[0].str()
                raise SourceError(f"topic {topic} cannot be created: {reason}") from error
    deadline = time.monotonic() + ADMIN_TIMEOUT_S
    while True:
        known = admin.list_topics(timeout=ADMIN_TIMEOUT_S).topics
        if all(topic in known and known[topic].partitions for topic in missing):
            return
        if time.monotonic() > deadline:
            raise SourceError(f"the topics {', '.join(missing)} were created but do not appear.")
        time.sleep(0.05)


def new_topic(settings: StreamingSettings, topic: str) -> NewTopic:
    """How a missing topic is made."""
    is_dead = topic == settings.dead_letters_topic
    return NewTopic(
        topic,
        num_partitions=1 if is_dead else settings.topic_partitions,
        replication_factor=settings.topic_replication,
        config={"max.message.bytes": str(DEAD_LETTER_BYTES_MAX)} if is_dead else {},
    )


def record_bytes_max(settings: StreamingSettings, topic: str) -> int:
    """The largest record the broker takes for a topic."""
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic)
    admin = admin_of(settings)  # the answer is lost when the client goes first
    future = admin.describe_configs([resource])[resource]
    return int(future.result(timeout=ADMIN_TIMEOUT_S)["max.message.bytes"].value)


def partitions_of(settings: StreamingSettings) -> dict[str, int]:
    """The number of partitions of each events topic."""
    topics = admin_of(settings).list_topics(timeout=ADMIN_TIMEOUT_S).topics
    return {topic: len(topics[topic].partitions) for topic in settings.events_topics}


def topic_partitions(offsets: Offsets) -> list[TopicPartition]:
    """Offsets as the Kafka client wants them."""
    return [
        TopicPartition(topic, partition, offset)
        for topic, partitions in offsets.items()
        for partition, offset in partitions.items()
    ]


def refuse_lost_topics(settings: StreamingSettings, committed: Offsets) -> None:
    """Refuse to go on behind the end of a topic: one made anew would have its events skipped."""
    consumer = Consumer(
        {"bootstrap.servers": settings.kafka_bootstrap, "group.id": settings.query_name}
    )
    try:
        for place in topic_partitions(committed):
            _, end = consumer.get_watermark_offsets(place, timeout=ADMIN_TIMEOUT_S)
            if place.offset > end:
                raise SourceError(
                    f"{settings.query_name} has committed offset {place.offset} of {place.topic} "
                    f"partition {place.partition}, which ends at {end}: the topic was made anew. "
                    "Choose another HERALD_QUERY_NAME and HERALD_CHECKPOINT_DIR, or delete the "
                    "consumer group and the checkpoint."
                )
    finally:
        consumer.close()
