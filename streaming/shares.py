"""Shares: how a batch is divided among the partitions that wait.

Spark gives each partition a part of the batch in proportion to what waits in it. With a million
events in one partition, a few in another then take as long as the million. Here each partition gets
the same, and what it does not need goes to the others: a short queue is served whole.
"""

from __future__ import annotations

from streaming.pins import Offsets


def size_of(start: Offsets, end: Offsets) -> int:
    """Offsets from `start` to `end`, in the partitions that both have."""
    return sum(
        offset - start[topic][partition]
        for topic, partitions in end.items()
        for partition, offset in partitions.items()
        if partition in start.get(topic, {})
    )


def fair_end(start: Offsets, latest: Offsets, limit: int) -> Offsets:
    """Where a batch of at most `limit` events ends, divided evenly.

    Every partition in which something waits gets at least one event, as Spark does it, even if
    there are more of them than the limit. A partition without a start is left out.
    """
    waiting = sorted(
        (offset - start[topic][partition], topic, partition)
        for topic, partitions in latest.items()
        for partition, offset in partitions.items()
        if partition in start.get(topic, {})
    )
    end: Offsets = {}
    left = limit
    for number, (count, topic, partition) in enumerate(waiting):
        taken = max(0, min(count, max(1, left // (len(waiting) - number))))
        left -= taken
        end.setdefault(topic, {})[partition] = start[topic][partition] + taken
    return end


def starved(start: Offsets, planned: Offsets, fair: Offsets) -> list[tuple[str, int]]:
    """Partitions that get less than half of their even share by a plan."""
    return [
        (topic, partition)
        for topic, partitions in fair.items()
        for partition, offset in partitions.items()
        if 2 * (planned[topic][partition] - start[topic][partition])
        <= offset - start[topic][partition]
        and offset > planned[topic][partition]
    ]
