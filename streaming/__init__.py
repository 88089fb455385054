"""The pipeline: events from Kafka, matched at one epoch a micro-batch, notifications to Kafka.

A batch passes, in this order:

    job        wires everything; one foreachBatch callback is the whole batch
    pace       driver    where the batch ends: a limit by what events cost, in even shares
    pins       driver    fixes the epoch and the time of the batch, for every replay too
    source     Spark     reads the batch's records from the events topic
    decode     worker    records -> events and dead letters
    refresh    worker    the index at exactly the pinned epoch (snapshots + changes)
    match      worker    events -> matches
    notify     worker    matches -> notifications
    packing    worker -> driver   few large rows instead of many small ones
    sink       driver    one Kafka transaction: notifications, dead letters, source offsets

Beside it, in the driver: `topics` makes or refuses topics before the start, `tail` follows the
subscription log and keeps it in `changes` for the workers, `snapshots` is the process that builds
snapshots, `ready` serves /readyz and /metrics, `backlog` asks the broker what waits, `query` starts
Spark's query, again whenever a batch is planned anew.
"""
