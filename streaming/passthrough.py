"""Passthrough: the same pipeline without decoding and matching, as a yardstick for both.

Each event becomes one record of the notifications topic, with the event as its value. Source,
packing, transaction and everything else are shared with the real one, so the difference of their
rates is what decoding and matching cost. `./herald bench pipeline` runs both.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from streaming.decode import Records
from streaming.match import MatchRequest, without_committed
from streaming.packing import Output, pack, parts_of


def pass_partition(
    request: MatchRequest, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """What mapInArrow calls instead of `match.match_partition`."""
    for batch in batches:
        records = Records.of(without_committed(batch, request.committed))
        values = [value or b"" for value in records.values.to_pylist()]
        ids = [b"%d" % offset for offset in records.offsets.tolist()]
        output = Output()
        for first, stop in parts_of(records.value_bytes()):
            count = stop - first
            output.notify([None] * count, values[first:stop], ids[first:stop], [1] * count)
            if output.is_full():
                yield pack(output, {})
                output = Output()
        yield pack(output, {"rows": len(records), "notifications": len(records)})
