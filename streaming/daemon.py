"""Daemon: the process that Spark forks its Python workers from, with everything imported.

    python -m streaming.daemon pyspark.worker        started by Spark (spark.python.daemon.module)

A worker that starts or starts again, after a minute without events or a kill, has its modules and
its compiled kernels at once, and shares their memory with the others.
"""

from __future__ import annotations

from pyspark.daemon import manager

from streaming.failpoints import arm
from streaming.refresh import quiet_collector
from streaming.settings import load_settings
from streaming.warm import warm_kernels

if __name__ == "__main__":
    settings = load_settings()
    arm(settings.failpoints, settings.checkpoint_dir.absolute())
    if settings.matcher != "passthrough":
        warm_kernels(settings.algorithm)
    quiet_collector()
    manager()
