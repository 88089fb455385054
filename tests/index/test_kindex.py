"""k-index against scan where lists are long."""

from __future__ import annotations

from random import Random

import pytest

from index.algorithms.kindex import KIndex
from index.algorithms.scan import Scan
from index.language import parse_text
from index.model import Subscription
from tests.index.segments import matched


@pytest.mark.parametrize("seed", range(6))
def test_long_lists_of_several_sizes(seed: int) -> None:
    """Cursors skip far, and many are sorted at once: the contract's worlds are too small for it."""
    random = Random(seed)
    paths, values = "abcdefgh"[: 4 + 2 * (seed % 3)], range(1 + seed)

    def leaf() -> str:
        return f"{random.choice(paths)} {random.choice(('=', '=', '<=', '>', '!='))} " + str(
            random.choice(values)
        )

    subscriptions = [
        Subscription(
            f"s{number}",
            parse_text(" AND ".join(leaf() for _ in range(random.choice((1, 2, 2, 3, 4, 5, 7))))),
        )
        for number in range(400)
    ]
    events = [
        {path: random.choice(values) for path in paths if random.random() < 0.8} for _ in range(25)
    ]
    index = KIndex.build(subscriptions)
    index.check()
    found = matched(index, events)
    assert found == matched(Scan.build(subscriptions), events)
    assert any(found)
