"""The embedded Kafka broker: one JVM in KRaft mode, for one machine, without replicas."""

from __future__ import annotations

import subprocess
import uuid
from base64 import urlsafe_b64encode
from collections.abc import Mapping, Sequence
from pathlib import Path

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from deploy.environment import UserError, find_java, free_port

HEAP_MB = 512
MESSAGE_BYTES_MAX = 2 * 1024 * 1024
"""An event may be 1 MB (semantics.md); its dead letter holds it in full, with reason and origin."""

LOGGING = """\
status = error
appender.console.type = Console
appender.console.name = console
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d{yyyy-MM-dd'T'HH:mm:ss.SSS} %p %c{1}: %m%n
rootLogger.level = warn
rootLogger.appenderRef.console.ref = console
"""


def properties(data: Path, port: int, controller_port: int, second: str = "") -> str:
    """The broker's configuration file; `second` as HERALD_KAFKA_SECOND_LISTENER has it."""
    names, addresses, advertised = ["PLAINTEXT"], [port], [port]
    if second:
        own, told = second.split(":")
        names, addresses, advertised = [*names, "SECOND"], [port, int(own)], [port, int(told)]
    listeners = [f"{name}://127.0.0.1:{at}" for name, at in zip(names, addresses, strict=True)]
    lines: Mapping[str, object] = {
        "process.roles": "broker,controller",
        "node.id": 1,
        "controller.quorum.voters": f"1@127.0.0.1:{controller_port}",
        "controller.listener.names": "CONTROLLER",
        "listeners": ",".join([*listeners, f"CONTROLLER://127.0.0.1:{controller_port}"]),
        # A client goes on to the address it is told here: one that came through a proxy must be
        # told the proxy's.
        "advertised.listeners": ",".join(
            f"{name}://127.0.0.1:{at}" for name, at in zip(names, advertised, strict=True)
        ),
        "listener.security.protocol.map": ",".join(
            f"{name}:PLAINTEXT" for name in [*names, "CONTROLLER"]
        ),
        "log.dirs": data,
        # A missing topic must be an error: Spark's query would follow an empty one of that name.
        "auto.create.topics.enable": "false",
        "message.max.bytes": MESSAGE_BYTES_MAX,
        "replica.fetch.max.bytes": MESSAGE_BYTES_MAX,
        # One broker: each internal topic has one copy, and few partitions to open at the start.
        "offsets.topic.replication.factor": 1,
        "offsets.topic.num.partitions": 4,
        "transaction.state.log.replication.factor": 1,
        "transaction.state.log.min.isr": 1,
        "transaction.state.log.num.partitions": 4,
        "share.coordinator.state.topic.replication.factor": 1,
        "share.coordinator.state.topic.min.isr": 1,
        # Nobody else joins later, so a group need not wait for more members.
        "group.initial.rebalance.delay.ms": 0,
        # There is no other broker to hand leadership to before stopping.
        "controlled.shutdown.enable": "false",
        "log.segment.bytes": 128 * 1024 * 1024,
    }
    return "".join(f"{key}={value}\n" for key, value in lines.items())


def prepare(folder: Path, jars: Path, port: int, log: Path, second: str = "") -> list[str]:
    """Write the configuration, format an empty data folder, and return the command to start."""
    java, data = find_java(), folder / "data"
    folder.mkdir(parents=True, exist_ok=True)
    configuration, logging = folder / "server.properties", folder / "log4j2.properties"
    configuration.write_text(properties(data, port, free_port(), second), encoding="utf-8")
    logging.write_text(LOGGING, encoding="utf-8")
    base = [java, "-cp", f"{jars}/*", f"-Dlog4j2.configurationFile={logging}"]
    if not (data / "meta.properties").exists():
        format_folder(base, configuration, log)
    # The default collector makes the heap larger while there is room, whatever lives in it, and
    # this one in steps after minutes or hours: what it will take, it has from the start.
    heap = [f"-Xms{HEAP_MB}m", f"-Xmx{HEAP_MB}m", "-XX:+AlwaysPreTouch"]
    heap += ["-XX:+UseSerialGC", "-XX:+ExitOnOutOfMemoryError"]
    return [*base, *heap, "kafka.Kafka", str(configuration)]


def format_folder(base: Sequence[str], configuration: Path, log: Path) -> None:
    """Give the data folder its cluster id; Kafka refuses to start in a folder without one."""
    cluster_id = urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
    # The first compiler alone: this JVM lives for a second. A leading "-" confuses the parser.
    command = [*base, "-XX:TieredStopAtLevel=1", "kafka.tools.StorageTool", "format"]
    command += [f"--cluster-id={cluster_id}", "--config", str(configuration)]
    with log.open("ab") as output:
        code = subprocess.run(
            command, stdin=subprocess.DEVNULL, stdout=output, stderr=output
        ).returncode
    if code != 0:
        raise UserError(f"the broker's data folder could not be formatted; {log} says why.")


def is_ready(bootstrap: str) -> bool:
    """Whether the broker answers and has registered itself."""
    try:
        return bool(admin(bootstrap).list_topics(timeout=1).brokers)
    except KafkaException:
        return False


def create_topics(bootstrap: str, partitions: Mapping[str, int]) -> None:
    """Create the topics that do not exist yet; existing ones keep their partitions and content."""
    topics = [NewTopic(name, count, 1) for name, count in partitions.items()]
    client = admin(bootstrap)  # the outcomes fail when it is collected before them
    for name, outcome in client.create_topics(topics, request_timeout=30).items():
        try:
            outcome.result()
        except KafkaException as error:
            reason = error.args[0]
            if reason.code() != KafkaError.TOPIC_ALREADY_EXISTS:
                raise UserError(f"topic {name} could not be created: {reason.str()}.") from error


def admin(bootstrap: str) -> AdminClient:
    """A client for administration; refused connections while a broker starts are not news."""
    return AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
