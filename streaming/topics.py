"""Topics: created or refused before the query starts, and what the broker says of them."""

from __future__ import annotations

import time
from typing import Any

from confluent_kafka import Consumer, KafkaException, TopicPartition
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    ConfigResource,
    NewTopic,
    OffsetSpec,
)

from streaming.pins import Offsets
from streaming.settings import StreamingSettings

ADMIN_TIMEOUT_S = 30.0
RECONNECT_MS_MAX = 1000
"""Between two tries to reach a broker; with the client's 10 s, one that is back is found late."""
DEAD_LETTER_BYTES_MAX = 16 * 1024 * 1024
"""Of the dead letters topic when created: input may be larger than any notification."""


class TopicError(Exception):
    """A topic or broker is not as the query needs it: what is wrong, and how to mend it."""


def client_options(settings: StreamingSettings) -> dict[str, Any]:
    """What every client of this query's broker is made with."""
    return {
        "bootstrap.servers": settings.kafka_bootstrap,
        "reconnect.backoff.max.ms": RECONNECT_MS_MAX,
        "log_level": 0,
    }


def admin_of(settings: StreamingSettings) -> AdminClient:
    """A client for topics."""
    return AdminClient(client_options(settings))


def ensure_topics(settings: StreamingSettings) -> None:
    """Create missing topics or refuse to start: Spark's source dies of one that lacks."""
    admin = admin_of(settings)
    try:
        known = set(admin.list_topics(timeout=ADMIN_TIMEOUT_S).topics)
    except KafkaException as error:
        raise TopicError(
            f"no Kafka broker answers at {settings.kafka_bootstrap} ({error.args[0].str()}); start "
            "one, or set HERALD_KAFKA_BOOTSTRAP."
        ) from error
    wanted = [*settings.events_topics, settings.notifications_topic, settings.dead_letters_topic]
    missing = [topic for topic in dict.fromkeys(wanted) if topic not in known]
    if missing and not settings.create_topics:
        raise TopicError(
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
                raise TopicError(f"topic {topic} cannot be created: {reason}") from error
    deadline = time.monotonic() + ADMIN_TIMEOUT_S
    while True:
        known = admin.list_topics(timeout=ADMIN_TIMEOUT_S).topics
        if all(topic in known and known[topic].partitions for topic in missing):
            return
        if time.monotonic() > deadline:
            raise TopicError(f"the topics {', '.join(missing)} were created but do not appear.")
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
    consumer = Consumer(client_options(settings) | {"group.id": settings.query_name})
    try:
        for place in topic_partitions(committed):
            _, end = consumer.get_watermark_offsets(place, timeout=ADMIN_TIMEOUT_S)
            if place.offset > end:
                raise TopicError(
                    f"{settings.query_name} has committed offset {place.offset} of {place.topic} "
                    f"partition {place.partition}, which ends at {end}: the topic was made anew. "
                    "Choose another HERALD_QUERY_NAME and HERALD_CHECKPOINT_DIR, or delete the "
                    "consumer group and the checkpoint."
                )
    finally:
        consumer.close()


def boundaries(
    admin: AdminClient, topics: tuple[str, ...], are_first: bool, timeout_s: float
) -> Offsets:
    """The first offset of each partition of these topics, or the one after the last.

    KafkaException if the broker does not answer in time.
    """
    asked: Any = OffsetSpec
    spec = asked.earliest() if are_first else asked.latest()
    places = [
        TopicPartition(topic, partition)
        for topic in topics
        for partition in admin.list_topics(topic, timeout=timeout_s).topics[topic].partitions
    ]
    found: Offsets = {}
    if not places:  # no topic is there any more, and the client refuses to ask for nothing
        return found
    futures = admin.list_offsets(dict.fromkeys(places, spec), request_timeout=timeout_s)
    for place, future in futures.items():
        found.setdefault(place.topic, {})[place.partition] = future.result().offset
    return found
