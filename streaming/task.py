"""Task: the function that Spark runs in its Python workers, and how a batch's pin reaches it.

The function is part of the query's plan, which Spark makes once; building it anew in each batch, to
put the pin into its closure, costs more than a small batch's matching. So the pin travels as a
local property of the job, which Spark hands to every task.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import orjson
import pyarrow as pa
from pyspark import TaskContext

from streaming.match import MatchRequest
from streaming.pins import Pin, offsets_of
from streaming.positions import Positions

PROPERTY = "herald.batch"
FORMAT_VERSION = 2
"""Of the property, and of the packed rows that come back: workers on other hosts have code of
their own.
"""

PartitionFunction = Callable[[MatchRequest, Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]


def encode_batch(pin: Pin, positions: Positions, share_bytes: int) -> str:
    """What tasks must know of a pass of their batch, as the property's value."""
    fields = {
        "v": FORMAT_VERSION,
        "epoch": pin.epoch,
        "lineage": pin.lineage,
        "now": pin.now,
        "committed": positions.offsets,
        "resumed": {
            topic: {partition: (mark.part, mark.parts) for partition, mark in marks.items()}
            for topic, marks in positions.marks.items()
        },
        "share_bytes": share_bytes,
    }
    return orjson.dumps(fields, option=orjson.OPT_NON_STR_KEYS).decode()


def decode_batch(template: MatchRequest, encoded: str) -> MatchRequest:
    """The request of one pass: the query's, with the batch's own part filled in.

    RuntimeError when the driver is of another release than this worker.
    """
    fields = orjson.loads(encoded)
    version = fields.pop("v", 1)
    if version != FORMAT_VERSION:
        raise RuntimeError(
            f"the driver describes batches in format {version}, this worker knows {FORMAT_VERSION}:"
            " install one release of Herald on all hosts, and start the query again."
        )
    fields["committed"] = offsets_of(fields["committed"])
    fields["resumed"] = {
        topic: {int(partition): (part, parts) for partition, (part, parts) in marks.items()}
        for topic, marks in fields["resumed"].items()
    }
    return replace(template, **fields)


def run_task(
    template: MatchRequest, function: PartitionFunction, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """What mapInArrow calls: the function with the request of this task's batch."""
    context = TaskContext.get()
    encoded = None if context is None else context.getLocalProperty(PROPERTY)
    if encoded is None:
        raise RuntimeError(f"the job has no local property {PROPERTY}: nothing is matched unpinned")
    return function(decode_batch(template, encoded), batches)
