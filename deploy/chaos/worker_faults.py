"""Faults of the processes below the driver, workers and executors: 2 and 3."""

from __future__ import annotations

import os
import resource
import signal
import time
from contextlib import suppress
from random import Random

from deploy.chaos.cluster import cluster
from deploy.chaos.faults import fault
from deploy.chaos.injection import await_true, expect
from deploy.chaos.world import World
from deploy.processes import marked, parent_of
from deploy.roles import words_of

DAEMON, EXECUTOR, JVM, BUILDER = "daemon", "executor", "jvm", "builder"
SIGNS = {
    # Each as one whole argument: the JVM has the daemon's name within one of its own.
    DAEMON: "streaming.daemon",
    EXECUTOR: "org.apache.spark.executor.CoarseGrainedExecutorBackend",
    JVM: "org.apache.spark.deploy.SparkSubmit",
    BUILDER: "streaming.snapshots",
}
CLUSTER = "local-cluster[2,1,1024]"
"""Spark's own cluster for tests: two executors, each a JVM."""
KILLS = 2
LARGE_EVENTS = 6
SLOW_S = 60
SPECULATION = {
    "spark.speculation": "true",
    "spark.speculation.interval": "100ms",
    "spark.speculation.minTaskRuntime": "1s",
    "spark.speculation.quantile": "0.5",
}


def processes(world: World, kind: str) -> list[int]:
    """The processes of a kind below the driver; of daemons, with the workers they forked."""
    return [
        record.pid
        for record in marked(world.stack.stack_id, "driver")
        if SIGNS[kind] in words_of(record.pid)
    ]


def workers(world: World) -> list[int]:
    """The Python workers: what a daemon has forked."""
    found = processes(world, DAEMON)
    return [pid for pid in found if parent_of(pid) in found]


def daemons(world: World) -> list[int]:
    """The processes that fork them."""
    found = processes(world, DAEMON)
    return [pid for pid in found if parent_of(pid) not in found]


@fault(
    2,
    "workers killed",
    "kill -9 of all Python workers, three times",
    "the tasks are retried",
    killed="worker",
    seconds=20,
)
def kill_workers(world: World, random: Random) -> None:
    """Workers die in the middle of whatever they do."""
    for _ in range(3):
        time.sleep(random.uniform(0.3, 1.5))
        await_true(lambda: bool(workers(world)), "there is no worker")
        for pid in workers(world):
            with suppress(ProcessLookupError):  # it may just have ended by itself
                os.kill(pid, signal.SIGKILL)
    world.healed()
    world.await_recovery()
    expect(world.injection.restarts == 0, "the driver died of it")


@fault(
    2,
    "worker killed in the match",
    "kill -9 of a worker after it has matched",
    "as above",
    killed="worker",
    seconds=15,
)
def kill_worker_in_match(world: World, random: Random) -> None:
    """A worker dies with its output in its hands."""
    world.arm("match.matched=kill@2!")
    world.await_mark("match.matched")
    world.healed()
    world.await_recovery()
    expect(world.injection.restarts == 0, "the driver died of it")


@fault(
    2,
    "daemon killed",
    "kill -9 of the process that forks the workers, and of those that it has forked",
    "Spark starts another",
    killed="daemon",
    seconds=20,
)
def kill_daemon(world: World, random: Random) -> None:
    """All workers are gone, and so is where new ones come from."""
    for pid in [*daemons(world), *workers(world)]:
        with suppress(ProcessLookupError):  # a worker may just have ended by itself
            os.kill(pid, signal.SIGKILL)
    world.healed()
    world.await_recovery()


@fault(
    2,
    "JVM killed",
    "kill -9 of the driver's JVM",
    "the driver ends, and goes on from its pin once it is started again",
    killed="JVM",
    seconds=40,
)
def kill_jvm(world: World, random: Random) -> None:
    """Spark is gone, and Python alone is left."""
    for pid in processes(world, JVM):
        os.kill(pid, signal.SIGKILL)
    world.healed()
    world.await_recovery()
    expect(
        world.injection.restarts == 1, f"the driver was started {world.injection.restarts} times"
    )


@fault(
    2,
    "workers out of memory",
    f"the address space of workers may not grow any more; {LARGE_EVENTS} events of a megabyte come",
    "as above",
    seconds=20,
)
def starve_workers(world: World, random: Random) -> None:
    """Each worker that is there now fails at its next larger allocation."""
    await_true(lambda: bool(workers(world)), "there is no worker")
    starved = workers(world)
    for pid in starved:
        with suppress(ProcessLookupError):
            resource.prlimit(pid, resource.RLIMIT_AS, (1, 1))
    for _ in range(LARGE_EVENTS):
        world.load.publish(b'{"pad":"%b"}' % (b"x" * 1_000_000))
    await_true(lambda: bool(set(starved) - set(workers(world))), "no worker has run out of memory")
    for pid in starved:  # one that has not shall not do so beyond the fault
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    world.healed()
    world.await_recovery()


@fault(
    3,
    "executors killed",
    f"kill -9 of one of two executor JVMs, {KILLS} times, on a cluster of processes",
    "the tasks are run elsewhere",
    killed="executor",
    seconds=60,
    master=CLUSTER,
)
def kill_executors(world: World, random: Random) -> None:
    """Its workers and their index go with it; what it had sent of a batch is asked for again."""
    for _ in range(KILLS):
        time.sleep(random.uniform(1, 3))
        await_true(lambda: len(processes(world, EXECUTOR)) >= 2, "there are not two executors")
        os.kill(random.choice(processes(world, EXECUTOR)), signal.SIGKILL)
    world.healed()
    world.await_recovery()
    expect(world.injection.restarts == 0, "the driver died of it")


@fault(
    3,
    "task run twice",
    f"on a cluster that speculates, a worker sleeps in the match for {SLOW_S} s, and Spark starts "
    "its task a second time",
    "the batch goes on long before the sleep is over, with the output of one of the two",
    seconds=90.0,
)
def duplicate_task(world: World, random: Random) -> None:
    """Two attempts of one task at once: whoever ends first is heard, and nobody else."""
    before = world.stack.env.copy()
    world.stack.stop_service("driver")
    with cluster(world.folder, before, SPECULATION) as environment:
        world.stack.env = before | environment
        try:
            world.restart_driver()
            world.arm(f"match.begun=sleep:{SLOW_S}@{random.randint(2, 6)}!")
            world.await_mark("match.begun")
            world.healed()
            world.await_recovery()
            took_s = world.injection.recovered_s or 0.0
            expect(took_s < SLOW_S - 5, f"nobody took over: it took {took_s:.0f} s")
            expect(world.injection.restarts == 0, "the driver died of it")
        finally:
            world.stack.env = before
            world.stack.stop_service("driver")
    world.restart_driver()
