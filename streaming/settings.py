"""Every option of the streaming query: an environment variable with the prefix HERALD_."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Literal

from pydantic import Field, ValidationError, field_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from streaming import failpoints

Delivery = Literal["exactly_once", "at_least_once"]
NAME_PATTERN = r"^[A-Za-z0-9._-]{1,200}$"


class StreamingSettings(BaseSettings):
    """Options of `python -m streaming`; each field is HERALD_ and its name in capitals."""

    model_config = SettingsConfigDict(env_prefix="HERALD_", extra="ignore", frozen=True)

    kafka_bootstrap: str = Field(
        default="127.0.0.1:9092", description="Kafka brokers, host:port, separated by commas."
    )
    store_url: str = Field(
        default="redis://127.0.0.1:6379/0", description="The subscription store."
    )
    events_topic: str = Field(
        default="events",
        description="Topics to match, separated by commas; they must not change for a checkpoint.",
    )
    notifications_topic: str = Field(
        default="notifications", pattern=NAME_PATTERN, description="Topic that tells of matches."
    )
    dead_letters_topic: str = Field(
        default="dead-letters",
        pattern=NAME_PATTERN,
        description="Topic for input that cannot be decoded.",
    )
    create_topics: bool = Field(
        default=True, description="Create missing topics at the start; else refuse to start."
    )
    topic_partitions: int = Field(
        default=4, ge=1, le=1000, description="Partitions of topics created at the start."
    )
    topic_replication: int = Field(
        default=-1, ge=-1, le=32767, description="Replicas of created topics; -1: as the broker."
    )
    query_name: str = Field(
        default="herald",
        pattern=NAME_PATTERN,
        description="Name of the query: its transactional id, consumer group and store reader.",
    )
    delivery: Delivery = Field(
        default="exactly_once",
        description="exactly_once: in transactions. at_least_once: repeats share an id.",
    )
    starting_offsets: Literal["earliest", "latest"] = Field(
        default="earliest",
        description="Where a query without checkpoint and committed offsets begins.",
    )
    algorithm: str = Field(default="herald", description="Index, a name of index.registry.")
    matcher: Literal["index", "passthrough"] = Field(
        default="index",
        description="passthrough: one record an event, without decoding or matching; a yardstick.",
    )
    lift_data: bool = Field(
        default=False, description="Put a CloudEvent's data at the root instead of under data."
    )
    hops_max: int = Field(
        default=4,
        ge=0,
        le=100,
        description="Times a notification may be an event again before it is a dead letter.",
    )
    notification_bytes_max: int = Field(
        default=900_000,
        ge=10_000,
        le=10_000_000,
        description="Bytes of one notification; full ones above it go without the event.",
    )
    checkpoint_dir: Path = Field(
        default=Path(".herald/checkpoint"),
        description="Spark's progress and the pinned epochs: a local or shared file system.",
    )
    snapshot_dir: Path = Field(
        default=Path(".herald/snapshots"),
        description="Index snapshots and the changes since; may be lost, is rebuilt.",
    )
    snapshot_changes_min: int = Field(
        default=20_000,
        ge=1,
        description="Changed subscriptions since the last snapshot that make a new one worth it.",
    )
    bulk_changes_per_s: int = Field(
        default=1_500,
        ge=1,
        description="Above it, over five seconds, changes take effect by snapshots, in steps.",
    )
    scratch_dir: Path = Field(
        default=Path(".herald/scratch"),
        description="Temporary files of Spark and its JVM; a local file system.",
    )
    jars_dir: Path | None = Field(
        default=None, description="Folder with the jar files of Spark's Kafka connector."
    )
    class_archive: Path | None = Field(
        default=None,
        description="Archive of Spark's classes for the driver's JVM; ./herald makes one.",
    )
    master: str = Field(default="local[2]", description="Spark master.")
    driver_memory: str = Field(
        default="1g", description="Heap of the driver's JVM, taken at the start."
    )
    executor_memory: str = Field(default="1g", description="Heap of an executor's JVM.")
    trigger_ms: int = Field(
        default=0,
        ge=0,
        description="Milliseconds from the start of a batch to the next; 0: at once.",
    )
    max_offsets_per_trigger: int = Field(
        default=50_000, ge=1, description="Events of one micro-batch at most, however cheap."
    )
    batch_seconds_target: float = Field(
        default=3.0,
        ge=0.5,
        le=3_600,
        description="How long a full micro-batch shall take; sets how many events it has.",
    )
    batches_retained: int = Field(
        default=100, ge=2, description="Batches whose offsets and pins are kept."
    )
    arrow_rows_max: int = Field(
        default=10_000, ge=1, description="Events a worker decodes and matches at once."
    )
    transaction_bytes_max: int = Field(
        default=64 * 1024 * 1024,
        ge=1,
        description="Bytes of notifications in one transaction; larger batches take several.",
    )
    transaction_timeout_ms: int = Field(
        default=60_000,
        ge=1_000,
        le=900_000,
        description="After this the broker aborts the transaction of a driver that hangs.",
    )
    produce_attempts_max: int = Field(
        default=5, ge=1, le=100, description="Attempts to write a batch before the query fails."
    )
    metrics_host: str = Field(default="127.0.0.1", description="Address of /metrics and /readyz.")
    metrics_port: int = Field(
        default=9464, ge=0, le=65535, description="Port of /metrics and /readyz; 0: none."
    )
    log_dir: Path = Field(
        default=Path(".herald/logs"), description="Folder of Spark's own log file."
    )
    log_level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = Field(
        default="INFO", description="Level of the driver's own log on the terminal."
    )
    spark_ui: bool = Field(default=False, description="Serve Spark's own pages on port 4040.")
    failpoints: str = Field(
        default="", description="For tests: where processes die, fail or wait; see failpoints.py."
    )

    @field_validator("failpoints")
    @classmethod
    def _check_failpoints(cls, text: str) -> str:
        failpoints.check(text)
        return text

    @property
    def events_topics(self) -> tuple[str, ...]:
        """The topics to match."""
        return tuple(name.strip() for name in self.events_topic.split(",") if name.strip())

    @property
    def exactly_once(self) -> bool:
        """Whether a batch is one transaction."""
        return self.delivery == "exactly_once"

    @property
    def reader_name(self) -> str:
        """The name under which the query reports to the store."""
        return f"query:{self.query_name}"


def load_settings() -> StreamingSettings:
    """The settings of the environment; on a wrong one say which and end the process."""
    try:
        return StreamingSettings()
    except ValidationError as error:
        for problem in error.errors():
            name = "HERALD_" + "_".join(str(part) for part in problem["loc"]).upper()
            print(f"herald: {name}={problem['input']}: {problem['msg']}", file=sys.stderr)
        raise SystemExit(2) from None
