"""`./herald bench decode`: ways to read JSON events, side by side on one file of them.

What matching needs are columns of the attributes in use. `kernel` is what Herald does; `orjson,
columns` gives the same columns from Python objects, and stands behind `kernel` where an event is
hostile. The others stop earlier, with dicts, structs or a table, and still have that way to go:
they show what there would be to gain. Rounds are interleaved; each figure is their median.
"""

from __future__ import annotations

import io
import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import orjson
import pyarrow as pa
import pyarrow.json

from benchmarks.matching import CountsDifferError, batches_of
from index.algorithms.herald import Herald
from index.events import Events, decode_payloads, encode
from index.model import Instant, Subscription
from index.vocabulary import Vocabulary

Reader = Callable[[Sequence[bytes]], Any]


def bench(
    subscriptions: Sequence[Subscription],
    payloads: Sequence[bytes],
    rounds: int,
    progress: Callable[[str], None],
) -> dict[str, object]:
    """µs an event of each way, for the attributes that the subscriptions name.

    CountsDifferError if the columns of both ways to them do not match alike.
    """
    progress(f"building over {len(subscriptions):,} subscriptions")
    index = Herald.build(subscriptions)
    batches = list(batches_of(payloads))
    readers = readers_for(index.vocabulary)
    progress("comparing the matches of both ways to columns")
    _assert_equal(index, readers, batches)
    seconds: dict[str, list[float]] = {name: [] for name in readers}
    refused: dict[str, str] = {}
    for number in range(1, rounds + 1):
        progress(f"round {number} of {rounds}")
        for name, read in readers.items():
            try:
                seconds[name].append(_time(read, batches))
            except (pa.ArrowInvalid, msgspec.DecodeError) as error:
                refused[name] = str(error).splitlines()[0]
    return {
        "subscriptions": len(subscriptions),
        "events": len(payloads),
        "bytes_per_event": round(sum(map(len, payloads)) / len(payloads), 1),
        "attributes_in_use": index.vocabulary.attribute_count,
        "rounds": rounds,
        "us_per_event": {
            name: None
            if name in refused
            else round(1e6 * statistics.median(seconds[name]) / len(payloads), 3)
            for name in readers
        },
        "refused": refused,
    }


def readers_for(vocabulary: Vocabulary) -> dict[str, Reader]:
    """The ways by name, the two that give columns first."""
    decode = msgspec.json.Decoder().decode
    paths = [vocabulary.path(number) for number in range(vocabulary.attribute_count)]
    tops = sorted({path[0] for path in paths if path[0].isidentifier()})
    fields: list[tuple[str, Any, Any]] = [(name, Any, None) for name in tops]
    decode_struct = msgspec.json.Decoder(msgspec.defstruct("Event", fields)).decode
    return {
        "kernel": lambda batch: decode_payloads(batch, vocabulary).events,
        "orjson, columns": lambda batch: encode(list(map(orjson.loads, batch)), vocabulary),
        "orjson, dicts": lambda batch: list(map(orjson.loads, batch)),
        "msgspec, dicts": lambda batch: list(map(decode, batch)),
        "msgspec, structs of attributes in use": lambda batch: list(map(decode_struct, batch)),
        "pyarrow, table": lambda batch: pyarrow.json.read_json(
            io.BytesIO(b"\n".join(batch)), pyarrow.json.ReadOptions(use_threads=False)
        ),
    }


def _assert_equal(
    index: Herald, readers: dict[str, Reader], batches: Sequence[Sequence[bytes]]
) -> None:
    now = Instant(*divmod(time.time_ns(), 1_000_000_000))
    for batch in batches:
        both: list[Events] = [readers[name](batch) for name in ("kernel", "orjson, columns")]
        ids = [[sorted(some) for some in index.ids_by_event(index.match(one, now))] for one in both]
        if ids[0] != ids[1]:
            raise CountsDifferError("events match otherwise when they are read by the kernel")


def _time(read: Reader, batches: Sequence[Sequence[bytes]]) -> float:
    started = time.perf_counter()
    for batch in batches:
        read(batch)
    return time.perf_counter() - started
