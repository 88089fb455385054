"""Every option of the embedded stack, each an environment variable with the prefix HERALD_."""

from __future__ import annotations

from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict

from deploy.environment import free_port


class StackSettings(BaseSettings):
    """Where the stack's services listen and what their topics are called."""

    model_config = SettingsConfigDict(env_prefix="HERALD_", extra="ignore", frozen=True)

    kafka_port: int = Field(
        default=9092, ge=1, le=65535, description="Port of the embedded Kafka broker."
    )
    kafka_second_listener: str = Field(
        default="",
        pattern=r"^(\d{1,5}:\d{1,5})?$",
        description="PORT:TOLD, another port of the broker, whose clients are told to go on to the "
        "port TOLD: a proxy's.",
    )
    store_port: int = Field(
        default=6379, ge=1, le=65535, description="Port of the embedded Valkey."
    )
    api_port: int = Field(default=8080, ge=1, le=65535, description="Port of the REST API.")
    metrics_port: int = Field(
        default=9464, ge=1, le=65535, description="Port of the driver's /metrics and /readyz."
    )
    events_topic: str = Field(
        default="events", description="Topics that publishers write to, separated by commas."
    )
    notifications_topic: str = Field(
        default="notifications", description="Topic that tells of matches."
    )
    dead_letters_topic: str = Field(
        default="dead-letters", description="Topic for input that cannot be decoded."
    )
    query_name: str = Field(
        default="herald",
        description="Name of the streaming query; two stacks on one broker need two.",
    )
    topic_partitions: int = Field(
        default=2,
        ge=1,
        le=1000,
        description="Partitions of the events and notifications topics when made; "
        "more than the query has workers makes each batch wait for a second round of tasks.",
    )

    def topics(self) -> dict[str, int]:
        """The topics to create, each with its number of partitions."""
        names = [name.strip() for name in self.events_topic.split(",") if name.strip()]
        return {
            **dict.fromkeys(names, self.topic_partitions),
            self.notifications_topic: self.topic_partitions,
            self.dead_letters_topic: 1,
        }

    def ports(self) -> dict[str, int]:
        """The port of each service."""
        return {
            "kafka": self.kafka_port,
            "valkey": self.store_port,
            "api": self.api_port,
            "driver": self.metrics_port,
        }

    def on_free_ports(self) -> StackSettings:
        """These settings with ports that nobody uses now, for stacks that must not meet others."""
        names = ("kafka_port", "store_port", "api_port", "metrics_port")
        return self.model_copy(update={name: free_port() for name in names})
