"""A driver in place of the stack's own: the same stack, another query with topics of its own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from deploy import broker
from deploy.stack import Stack


def start(stack: Stack, name: str, variables: Mapping[str, str], checkpoint: str) -> None:
    """Restart the driver as query `name` with these variables; its topics are as many-parted as the
    stack's, and it finds what it left in `checkpoint`-name when it last ran.
    """
    named = {
        "HERALD_QUERY_NAME": name,
        "HERALD_EVENTS_TOPIC": f"{name}-events",
        "HERALD_NOTIFICATIONS_TOPIC": f"{name}-records",
        "HERALD_DEAD_LETTERS_TOPIC": f"{name}-dead-letters",
        "HERALD_CHECKPOINT_DIR": f"{checkpoint}-{name}",
    }
    settings = stack.settings.model_copy(
        update={
            "events_topic": named["HERALD_EVENTS_TOPIC"],
            "notifications_topic": named["HERALD_NOTIFICATIONS_TOPIC"],
            "dead_letters_topic": named["HERALD_DEAD_LETTERS_TOPIC"],
        }
    )
    broker.create_topics(stack.env["HERALD_KAFKA_BOOTSTRAP"], settings.topics())
    stack.env.update(named, **variables)
    stack.restart("driver")


@contextmanager
def standing_in(stack: Stack, name: str, variables: Mapping[str, str]) -> Iterator[None]:
    """Run a variant, and the stack's own driver again afterwards."""
    own = dict(stack.env)
    try:
        start(stack, name, variables, own["HERALD_CHECKPOINT_DIR"])
        yield
    finally:
        stack.env.clear()
        stack.env.update(own)
        stack.restart("driver")
