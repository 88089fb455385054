"""Faults that come in as events, as writes and at the start: 16, 17, 19, 20, 22 and 23."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random
from typing import Any

import httpx
import orjson

from deploy.chaos.faults import fault
from deploy.chaos.injection import await_true, expect
from deploy.chaos.world import World
from deploy.environment import free_port
from deploy.stack import Stack
from deploy.traffic import end_offsets

BIG_BYTES = 1_900_000
"""Just below what the broker takes."""
POISON: dict[str, bytes | None] = {
    "no JSON": b"{\x00",
    "half": b'{"a":',
    "not UTF-8": b'{"a":"\xff\xfe"}',
    "duplicate keys": b'{"a":1,"a":2}',
    "deep": b"[" * 5_000 + b"]" * 5_000,
    "NaN": b'{"a":NaN}',
    "infinity": b'{"a":-Infinity}',
    "huge integer": b'{"a":' + b"9" * 5_000 + b"}",
    "huge exponent": b'{"a":1e999999}',
    "lone surrogate": b'{"a":"\\ud800"}',
    "no object": b"17",
    "nothing": b"",
    "null": None,
    "big": b'{"a":"' + b"x" * BIG_BYTES + b'"}',
    "many attributes": orjson.dumps({f"a{number}": number for number in range(20_000)}),
}
EVIL: dict[str, dict[str, Any]] = {
    "regex bomb": {"expr": "name MATCHES '(a*)*(a*)*(a*)*b'"},
    "IN of 10,001": {"filter": {"attr": "level", "op": "in", "value": list(range(10_001))}},
    "OR x OR": {
        "expr": " AND ".join(
            "(" + " OR ".join(f"a{row}{column} = 1" for column in range(12)) + ")"
            for row in range(12)
        )
    },
    "40 wildcards": {"expr": f"name LIKE '{'%a' * 40}%'"},
}
ANSWERED_S_MAX = 2.0
BURST_EVENTS = 3_000
CROWD = 400
WRITERS = 4
STORM_REQUESTS = 40


@fault(
    16,
    "poison events",
    f"{len(POISON)} kinds of bytes that are hardly events, between the others",
    "what is none becomes a dead letter with key, headers and bytes; the batch goes on",
    seconds=15,
)
def publish_poison(world: World, random: Random) -> None:
    """Each kind to each partition, at once and again."""
    partitions = len(end_offsets(world.bootstrap, world.events_topic))
    start = end_offsets(world.bootstrap, world.stack.settings.dead_letters_topic)
    names = list(POISON) * 2
    random.shuffle(names)
    for number, name in enumerate(names):
        headers: list[tuple[str, str | bytes | None]] = [("kind", name), ("empty", None)]
        key = f"key of {name}".encode()
        world.load.publish(POISON[name], headers, key, number % partitions)
    time.sleep(1)
    world.healed()
    world.await_recovery()
    expect(world.injection.restarts == 0, "the driver died of it")
    letters = world.recorder.read(world.stack.settings.dead_letters_topic, start)
    ours = [letter for letter in letters if letter.header("kind") in POISON]
    expect(bool(ours), "there is no dead letter")
    for letter in ours:
        name = letter.header("kind") or ""
        expect(letter.key == f"key of {name}".encode(), f"{name}: its key is {letter.key!r}")
        expect(("empty", None) in letter.headers, f"{name}: a header lacks")
        expect(bool(letter.header("herald_reason")), f"{name}: it has no reason")


@fault(
    17,
    "poison subscriptions",
    ", ".join(EVIL),
    f"each is refused or admitted within {ANSWERED_S_MAX:g} s; matching goes on",
    seconds=20,
)
def write_evil(world: World, random: Random) -> None:
    """Filters that would cost too much are judged by their cost."""
    for name, form in EVIL.items():
        started = time.monotonic()
        status = world.load.put(f"evil {name}", form)
        seconds = time.monotonic() - started
        expect(seconds < ANSWERED_S_MAX, f"{name} was answered after {seconds:.1f} s")
        expect(status in (200, 201, 400, 413, 422), f"{name} was answered by {status}")
    time.sleep(2)
    for name in EVIL:
        world.load.delete(f"evil {name}")
    world.healed()
    world.await_recovery()


@fault(
    19,
    "skew",
    f"{BURST_EVENTS:,} events at once, nine of ten to one partition, some of which match "
    f"{CROWD} subscriptions",
    "all are told of; the others go on",
)
def publish_skewed(world: World, random: Random) -> None:
    """A crowd hears of few events, between many that nobody hears of."""
    for number in range(CROWD):
        world.load.put(f"crowd{number}", {"expr": "crowd = TRUE", "mode": "compact"})
    world.await_live()
    partitions = len(end_offsets(world.bootstrap, world.events_topic))
    for number in range(BURST_EVENTS):
        event: dict[str, object] = {"crowd": number % 500 == 0, "n": number}
        partition = 0 if number % 10 else random.randrange(partitions)
        world.load.publish(orjson.dumps(event), partition=partition)
    world.healed()
    world.await_recovery()
    for number in range(CROWD):
        world.load.delete(f"crowd{number}")


@fault(
    20,
    "writes during a replay",
    f"{WRITERS} writers without pause, updates racing deletes of the same ids, while the driver is "
    "killed and replays",
    "a notification's revision is that of its epoch",
    seconds=50,
)
def write_in_replay(world: World, random: Random) -> None:
    """Nobody waits for anybody."""
    ended = threading.Event()

    def hammer(number: int) -> None:
        own = Random(number)
        while not ended.is_set():
            name = f"race{own.randrange(4)}"
            if own.random() < 0.4:
                world.load.delete(name)
            else:
                world.load.put(name, {"expr": f"kind = {own.randrange(12)}"})

    with ThreadPoolExecutor(WRITERS) as pool:
        try:
            for number in range(WRITERS):
                pool.submit(hammer, number)
            time.sleep(1)
            world.arm("sink.produced=kill@2")
            world.await_death("driver")
            world.healed()
            world.restart_driver()
            world.await_recovery()
        finally:
            ended.set()


@fault(
    22,
    "retry storm",
    f"{STORM_REQUESTS} requests with one Idempotency-Key over two API processes",
    "one subscription",
)
def storm(world: World, random: Random) -> None:
    """A client that repeats itself, to whoever answers."""
    mark = f"{random.getrandbits(64):016x}"
    folder = world.folder / f"api-{mark}"
    settings = world.stack.settings.model_copy(update={"api_port": free_port()})
    environment = {
        name: world.stack.env[name] for name in ("HERALD_KAFKA_BOOTSTRAP", "HERALD_STORE_URL")
    }
    body = {"expr": "kind = 3", "labels": {"storm": mark}}
    with Stack(Path(folder), settings, {"api"}, environment):
        addresses = [world.api, f"http://127.0.0.1:{settings.api_port}"]

        def ask(number: int) -> tuple[int, str]:
            answer = httpx.post(
                f"{addresses[number % 2]}/v1/subscriptions",
                json=body,
                headers={"Idempotency-Key": mark},
                timeout=30,
                trust_env=False,
            )
            return answer.status_code, answer.json().get("id", "")

        with ThreadPoolExecutor(16) as pool:
            answers = set(pool.map(ask, range(STORM_REQUESTS)))
    world.healed()
    world.await_recovery()
    expect(
        len({name for _, name in answers}) == 1 and {code for code, _ in answers} <= {200, 201},
        f"the answers were {answers}",
    )
    with world.store() as store:
        there = [one.id for one in store.scan_all()[1] if one.labels.get("storm") == mark]
    expect(len(there) == 1, f"there are {len(there)} subscriptions")


@fault(
    23,
    "everything restarted",
    "all processes are killed and started; events that match nothing come while the index loads",
    "no notification of these: never match-all",
    killed="everything",
    seconds=60,
)
def restart_all(world: World, random: Random) -> None:
    """The index is not there yet, and nobody may be told of anything because of that."""
    with world.outage():
        for name in ("driver", "api", "valkey", "kafka"):
            world.kill(name)
        for name in ("valkey", "kafka"):
            world.stack.restart(name)
        world.healed()
        for name in ("api", "driver"):
            world.stack.restart(name, wait=False)
        while not world.stack.service("driver").is_ready():
            world.load.publish(b'{"of": "no concern"}')
            time.sleep(0.1)
            await_true(lambda: "driver" not in world.stack.dead_services(), "the driver died", 1)
        world.stack.wait_ready("api")
    world.await_recovery()
