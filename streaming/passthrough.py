"""Passthrough: the same pipeline without decoding and matching, as a yardstick for both.

Each event becomes one record of the notifications topic, with the event as its value. Source,
packing, transaction and everything else are shared with the real one, so the difference of their
rates is what decoding and matching cost. `./herald bench pipeline` runs both.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc

from streaming.decode import Records
from streaming.match import MatchRequest, without_committed
from streaming.packing import ROW_BYTES_MAX, Output, pack, parts_of


def pass_partition(
    request: MatchRequest, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """What mapInArrow calls instead of `match.match_partition`."""
    for batch in batches:
        records = Records.of(without_committed(batch, request.committed))
        values = pc.fill_null(records.values, b"")
        ids = pc.cast(pc.cast(pa.array(records.offsets), pa.string()), pa.binary())
        output = Output()
        for first, stop in parts_of(records.value_bytes(), ROW_BYTES_MAX):
            count = stop - first
            keys, kinds = pa.nulls(count, pa.binary()), pa.repeat(pa.scalar(1, pa.uint8()), count)
            output.notify(keys, values.slice(first, count), ids.slice(first, count), kinds)
            if output.is_full():
                yield pack(output, {})
                output = Output()
        yield pack(output, {"rows": len(records), "notifications": len(records)})
