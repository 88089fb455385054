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
from streaming.packing import Output, pack


def pass_partition(
    request: MatchRequest, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """What mapInArrow calls instead of `match.match_partition`."""
    for batch in batches:
        records = Records.of(without_committed(batch, request.committed))
        output = Output()
        offsets = records.offsets.tolist()
        for value, offset in zip(records.values.to_pylist(), offsets, strict=True):
            output.notify(None, value or b"", b"%d" % offset, 1)
            if output.is_full():
                yield pack(output, {})
                output = Output()
        yield pack(output, {"rows": len(records), "notifications": len(records)})
