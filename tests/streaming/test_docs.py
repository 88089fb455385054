"""docs/streaming.md against the code: every setting with its default, every metric, every step."""

from __future__ import annotations

import re

from deploy.environment import REPOSITORY
from streaming.metrics import STEPS, Metrics
from streaming.settings import StreamingSettings

DOCS = (REPOSITORY / "docs" / "streaming.md").read_text(encoding="utf-8")


def test_every_setting_is_documented_with_its_default() -> None:
    rows = dict(re.findall(r"^\| `HERALD_(\w+)` \| (.*?) \|", DOCS, re.MULTILINE))
    assert rows == {
        name.upper(): "" if field.default is None else f"`{field.default}`"
        for name, field in StreamingSettings.model_fields.items()
    }


def test_every_metric_is_documented_with_its_type() -> None:
    rows = re.findall(r"^\| `(herald_\w+)` \| (\w+) \|", DOCS, re.MULTILINE)
    families = list(Metrics().registry.collect())
    assert sorted(rows) == sorted(
        (family.name + ("_total" if family.type == "counter" else ""), family.type)
        for family in families
    )


def test_every_step_is_named() -> None:
    told = DOCS.rpartition("The steps of")[2]
    assert set(STEPS) <= set(re.findall(r"`(\w+)`", told))
