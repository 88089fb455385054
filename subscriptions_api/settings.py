"""Every option of the API: an environment variable with the prefix HERALD_."""

from __future__ import annotations

import ipaddress
import sys
from pathlib import Path

from pydantic import Field, ValidationError
from pydantic_settings import BaseSettings, SettingsConfigDict


class ApiSettings(BaseSettings):
    """Options of `python -m subscriptions_api`; each field is HERALD_ and its name in capitals."""

    model_config = SettingsConfigDict(env_prefix="HERALD_", extra="ignore", frozen=True)

    api_host: str = Field(default="127.0.0.1", description="Address to listen on.")
    api_port: int = Field(default=8080, ge=0, le=65535, description="Port to listen on.")
    api_keys_file: Path | None = Field(
        default=None,
        description="File of hashed API keys; without one only 127.0.0.1 is served, as `default`.",
    )
    store_url: str = Field(
        default="redis://127.0.0.1:6379/0", description="The subscription store."
    )
    kafka_bootstrap: str = Field(
        default="127.0.0.1:9092", description="Kafka brokers, host:port, separated by commas."
    )
    events_topic: str = Field(
        default="events", description="Topic that POST /v1/events writes to; the first of a list."
    )
    lift_data: bool = Field(
        default=False,
        description="Dry runs put a CloudEvent's data at the root; as the streaming query has it.",
    )
    algorithm: str = Field(
        default="herald", description="Index of dry runs, a name of index.registry."
    )
    publish_timeout_s: float = Field(
        default=10.0, gt=0, description="How long Kafka may take to acknowledge an event."
    )
    barrier_timeout_s_max: float = Field(
        default=120.0, gt=0, description="The longest that GET /v1/store/epoch waits."
    )
    subscriptions_max: int = Field(
        default=10_000_000, ge=1, description="Subscriptions of one tenant."
    )
    writes_per_s: float = Field(
        default=20_000, gt=0, description="Subscriptions a tenant may write a second, on average."
    )
    events_per_s: float = Field(
        default=20_000, gt=0, description="Events a tenant may publish by REST a second."
    )
    dry_runs_per_s: float = Field(
        default=100, gt=0, description="Events a tenant may try by events:match a second."
    )

    @property
    def topic(self) -> str:
        """The topic that events are published to."""
        return self.events_topic.split(",")[0].strip()

    def refusal(self) -> str:
        """Why these settings would be unsafe; '' if they are not."""
        if self.api_keys_file is None and not is_loopback(self.api_host):
            return (
                f"HERALD_API_HOST={self.api_host} is open to others, but HERALD_API_KEYS_FILE is "
                "not set: make a key with python -m subscriptions_api.keys, or listen on 127.0.0.1"
            )
        return ""


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach the host."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def load_settings() -> ApiSettings:
    """The settings of the environment; on a wrong one say which and end the process."""
    try:
        settings = ApiSettings()
    except ValidationError as error:
        for problem in error.errors():
            name = "HERALD_" + "_".join(str(part) for part in problem["loc"]).upper()
            print(f"herald: {name}={problem['input']}: {problem['msg']}", file=sys.stderr)
        raise SystemExit(2) from None
    if refusal := settings.refusal():
        print(f"herald: {refusal}", file=sys.stderr)
        raise SystemExit(2)
    return settings
