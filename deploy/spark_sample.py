"""Spark sample: what any driver makes Spark load, for the archive of classes.

spark-submit deploy/spark_sample.py FOLDER      FOLDER takes Spark's own files
"""

from __future__ import annotations

import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

BATCHES_S_MAX = 60
OPTIONS = {
    "spark.ui.enabled": "false",
    "spark.sql.adaptive.enabled": "false",
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.python.unix.domain.socket.dir": tempfile.gettempdir(),
}


def main(folder: Path) -> None:
    """A job, and batches of a stream that Python functions see on workers and on the driver."""
    builder = SparkSession.builder.master("local[2]")
    for name, value in {**OPTIONS, "spark.local.dir": str(folder)}.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.range(2).mapInArrow(copy, "id long").toArrow()
    seen = threading.Event()

    def collect(batch: DataFrame, number: int) -> None:
        batch.toArrow()
        if number:  # the first is done, all that follows it too
            seen.set()

    stream = session.readStream.format("rate-micro-batch").option("rowsPerBatch", 2).load()
    rows = stream.select("value").mapInArrow(copy, "value long")
    query = (
        rows.writeStream.foreachBatch(collect)
        .option("checkpointLocation", str(folder / "checkpoint"))
        .start()
    )
    seen.wait(BATCHES_S_MAX)
    query.stop()
    session.stop()


def copy(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """All that a worker is given."""
    yield from batches


if __name__ == "__main__":
    main(Path(sys.argv[1]))
