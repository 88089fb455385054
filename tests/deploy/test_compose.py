"""docker-compose.yml, the image and the alarms agree with the code; none of them is run here."""

from __future__ import annotations

import re
from collections.abc import Mapping

import pytest
from pydantic_settings import BaseSettings

from deploy.environment import REPOSITORY
from deploy.settings import StackSettings
from store.settings import SERVER_OPTIONS
from streaming.metrics import Metrics
from streaming.settings import StreamingSettings
from subscriptions_api.settings import ApiSettings

COMPOSE = (REPOSITORY / "docker-compose.yml").read_text(encoding="utf-8")
IMAGE = (REPOSITORY / "deploy" / "Dockerfile").read_text(encoding="utf-8")
RULES = (REPOSITORY / "deploy" / "prometheus" / "rules.yml").read_text(encoding="utf-8")

SETTINGS: Mapping[str, type[BaseSettings]] = {"api": ApiSettings, "driver": StreamingSettings}
"""Whose variables each service gets."""

REACHED = {"kafka_bootstrap", "store_url", "events_topic", "notifications_topic"}
"""Fields whose defaults mean this machine, or that both must agree on."""


def section(service: str) -> str:
    """The lines of one service."""
    found = re.search(rf"^  {service}:\n((?:    .*\n|\n)+)", COMPOSE, re.MULTILINE)
    assert found is not None, f"no service {service}"
    return found[1]


def variables(service: str) -> dict[str, str]:
    """The service's HERALD_ variables as fields."""
    found = re.findall(r"^      HERALD_(\w+): (.*)$", section(service), re.MULTILINE)
    return {name.lower(): value for name, value in found}


@pytest.mark.parametrize("service", SETTINGS)
def test_every_variable_is_a_setting_and_valid(service: str) -> None:
    fields = SETTINGS[service].model_fields
    given = variables(service)
    assert set(given) <= set(fields)
    assert set(given) >= REACHED & set(fields)
    settings = SETTINGS[service].model_validate(given)
    if isinstance(settings, ApiSettings):
        assert settings.refusal() == ""


def test_both_services_mean_the_same_topics_and_servers() -> None:
    api, driver = variables("api"), variables("driver")
    shared = REACHED & set(api)
    assert {name: api[name] for name in shared} == {name: driver[name] for name in shared}


def test_the_image_sets_only_settings_of_the_driver() -> None:
    named = {name.lower() for name in re.findall(r"\bHERALD_(\w+)=", IMAGE)}
    assert named - {"cache"} <= set(StreamingSettings.model_fields)


def test_every_package_of_the_product_is_in_the_image() -> None:
    copied = set(re.findall(r"^COPY (\w+) \1$", IMAGE, re.MULTILINE))
    assert copied == {"index", "store", "streaming", "subscriptions_api"}


def test_the_store_is_started_as_it_must_be() -> None:
    options = dict(re.findall(r"--([\w-]+) (\S+)$", section("valkey"), re.MULTILINE))
    assert {name: options.get(name) for name in SERVER_OPTIONS} == SERVER_OPTIONS


def test_nothing_listens_beyond_this_machine() -> None:
    ports = re.findall(r'ports: \["(.*)"\]', COMPOSE)
    assert len(ports) == 5
    assert all(port.startswith("127.0.0.1:") for port in ports)


def test_ports_are_those_of_the_embedded_stack() -> None:
    published = {int(port) for port in re.findall(r'"127\.0\.0\.1:(\d+):', COMPOSE)}
    # The environment of a test run may have moved them.
    fields = StackSettings.model_fields
    usual = {fields[name].default for name in fields if name.endswith("_port")}
    assert published == {*usual, 9090}


def test_alarms_ask_for_figures_that_exist() -> None:
    known = {
        sample.name for metric in Metrics().registry.collect() for sample in metric.samples
    } | {metric.name for metric in Metrics().registry.collect()}
    known |= {f"{name}_total" for name in known}
    asked = set(re.findall(r"\bherald_\w+", "\n".join(re.findall(r"expr: (.*)", RULES))))
    assert asked
    assert asked <= known


def test_alarms_point_to_paragraphs_that_exist() -> None:
    text = (REPOSITORY / "docs" / "operations.md").read_text(encoding="utf-8")
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    anchors = {re.sub(r"[^\w -]", "", heading).lower().replace(" ", "-") for heading in headings}
    assert set(re.findall(r"docs/operations\.md#([\w-]+)", RULES)) <= anchors
