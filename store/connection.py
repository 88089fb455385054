"""The connection to Valkey or Redis: made once, checked once, its errors translated once."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import redis
from redis.backoff import NoBackoff
from redis.exceptions import (
    AuthenticationError,
    BusyLoadingError,
    ConnectionError,
    NoPermissionError,
    OutOfMemoryError,
    ReadOnlyError,
    RedisError,
    ResponseError,
    TimeoutError,
)
from redis.retry import Retry

from store.errors import (
    StoreDamaged,
    StoreError,
    StoreFull,
    StoreIncompatible,
    StoreReadOnly,
    StoreUnavailable,
)
from store.keys import Keys
from store.records import FORMAT_VERSION
from store.settings import BUCKETS_DEFAULT, SERVER_OPTIONS, StoreSettings

LIBRARY = Path(__file__).with_name("herald.lua")
FUNCTION_PREFIX = "herald_1_"
REDIS_VERSION_MIN = (7, 2)
"""The first with WAITAOF; Valkey reports 7.2 or more for compatibility."""

log = logging.getLogger(__name__)


def connect(settings: StoreSettings) -> redis.Redis:
    """A client that never repeats a command by itself: a write might then happen twice."""
    try:
        pool = redis.BlockingConnectionPool.from_url(
            settings.url,
            max_connections=settings.connections_max,
            timeout=settings.command_timeout_s,
            socket_connect_timeout=settings.connect_timeout_s,
            socket_timeout=settings.command_timeout_s,
            socket_keepalive=True,
            retry=Retry(NoBackoff(), 0),
            protocol=2,
            client_name="herald",
        )
    except ValueError as error:
        raise StoreIncompatible(
            f"The store URL cannot be read: {error}.",
            "Write redis://host:port/db; HERALD_STORE_URL sets it.",
        ) from None
    return redis.Redis(connection_pool=pool)


def address_in(url: str) -> str:
    """Host, port and database of a URL, for messages: never its user or password."""
    parts = urlsplit(url)
    return f"{parts.hostname or ''}{f':{parts.port}' if parts.port else ''}{parts.path}"


@contextmanager
def translated(address: str, *, writing: bool = False) -> Iterator[None]:
    """Turn the client's errors into the store's; `writing` if a write may have been sent."""
    try:
        yield
    except RedisError as error:
        raise translate(error, address, writing=writing) from error
    except OSError as error:
        raise StoreUnavailable(
            f"The store at {address} is unreachable: {error}.", may_have_happened=writing
        ) from error


def translate(error: RedisError, address: str, *, writing: bool) -> StoreError:
    """The store's error for one of the client's."""
    text = str(error).rstrip(".")
    word = text.split(" ", 1)[0]
    # The client has no class of error for this: without a connection, nothing was sent.
    sent = writing and not any(words in text for words in ("connecting to", "No connection"))
    fate = " The write may or may not have happened." if sent else ""
    if isinstance(error, OutOfMemoryError):
        return StoreFull(
            f"The store at {address} is at its memory limit and takes no writes.",
            "Raise maxmemory or delete subscriptions; matching goes on.",
        )
    if isinstance(error, ReadOnlyError) or word in {"MISCONF", "NOREPLICAS", "READONLY"}:
        return StoreReadOnly(
            f"The store at {address} takes no writes: {text}.",
            "Point HERALD_STORE_URL at the primary, and look at the server's disk and replicas.",
        )
    if isinstance(error, (AuthenticationError, NoPermissionError)) or word == "NOAUTH":
        return StoreIncompatible(
            f"The store at {address} refuses this user: {text}.",
            "Put user and password into HERALD_STORE_URL; the user needs all commands on the keys "
            "of the namespace, and FUNCTION, INFO and WAITAOF.",
        )
    if isinstance(error, BusyLoadingError):
        return StoreUnavailable(f"The store at {address} is still loading its data.")
    if isinstance(error, TimeoutError):
        return StoreUnavailable(
            f"The store at {address} did not answer in time.{fate}",
            "Repeat a write with the same idempotency key.",
            may_have_happened=sent,
        )
    if isinstance(error, ConnectionError):
        return StoreUnavailable(
            f"The store at {address} is unreachable: {text}.{fate}",
            "Check that the server runs and that HERALD_STORE_URL names it.",
            may_have_happened=sent,
        )
    if isinstance(error, ResponseError):
        return StoreDamaged(
            f"The store at {address} refused a command: {text}.",
            "Its keys may have been changed by hand, or belong to something else.",
        )
    return StoreUnavailable(f"The store at {address} failed: {text}.", may_have_happened=writing)


def prepare(client: redis.Redis, keys: Keys, settings: StoreSettings) -> int:
    """Check the server, load the functions, create or check the store; its number of buckets."""
    address = address_in(settings.url)
    with translated(address):
        _check_server(client, address, settings)
        load_library(client)
        return _open_meta(client, keys, settings, address)


def load_library(client: redis.Redis) -> None:
    """Load the server functions unless exactly these are loaded."""
    source = LIBRARY.read_text(encoding="utf-8")
    digest = hashlib.sha256(source.encode()).hexdigest()
    try:
        loaded = client.fcall_ro(f"{FUNCTION_PREFIX}version", 0)
    except ResponseError:
        loaded = None
    if loaded != digest.encode():
        first_line, _, rest = source.partition("\n")
        client.function_load(f"{first_line}\nlocal DIGEST = '{digest}'\n{rest}", replace=True)


def _check_server(client: redis.Redis, address: str, settings: StoreSettings) -> None:
    facts = client.info()
    version = tuple(int(part) for part in str(facts["redis_version"]).split(".")[:2])
    if version < REDIS_VERSION_MIN:
        raise StoreIncompatible(
            f"The store at {address} is version {facts['redis_version']}.",
            "Valkey, or Redis 7.2 or later, is needed.",
        )
    if settings.require_durable and not facts["aof_enabled"]:
        raise StoreIncompatible(
            f"The store at {address} keeps no append-only file: a restart would lose "
            "acknowledged subscriptions.",
            "Start it with `--appendonly yes --appendfsync always`, or set require_durable to "
            "false for a trial.",
        )
    if str(facts.get("maxmemory_policy", "")).startswith("allkeys"):
        raise StoreIncompatible(
            f"The store at {address} evicts keys ({facts['maxmemory_policy']}): subscriptions "
            "would vanish silently.",
            "Start it with `--maxmemory-policy noeviction`.",
        )
    _advise(client, address)


def _advise(client: redis.Redis, address: str) -> None:
    """Log the options that cost memory or time; a managed server may not even tell them."""
    try:
        options: dict[Any, Any] = client.config_get("append*", "hash-max-listpack-*")
    except RedisError:
        return
    for name, wanted in SERVER_OPTIONS.items():
        found = options.get(name.encode(), options.get(name))
        text = found.decode() if isinstance(found, bytes) else found
        if text is None or text == wanted:
            continue
        if not (text.isdigit() and int(text) >= int(wanted)):
            log.warning("The store at %s has %s %s; advised: %s.", address, name, text, wanted)


def _open_meta(client: redis.Redis, keys: Keys, settings: StoreSettings, address: str) -> int:
    meta = client.hgetall(keys.meta)
    if not meta:
        with client.pipeline(transaction=True) as pipeline:
            pipeline.hsetnx(keys.meta, "format", str(FORMAT_VERSION))
            pipeline.hsetnx(keys.meta, "buckets", str(settings.buckets or BUCKETS_DEFAULT))
            pipeline.hgetall(keys.meta)
            meta = pipeline.execute()[-1]
    stored_format, buckets = int(meta.get(b"format", 1)), int(meta[b"buckets"])
    if stored_format != FORMAT_VERSION:
        raise StoreIncompatible(
            f"The store at {address} has format {stored_format}, but only {FORMAT_VERSION} is "
            "known: a later release wrote it.",
            "Upgrade this process; or export with that release, and import into an empty store.",
        )
    if settings.buckets not in (None, buckets):
        raise StoreIncompatible(
            f"The store at {address} was created with {buckets} buckets, not {settings.buckets}.",
            "Leave the setting out, or export, flush and import.",
        )
    return buckets
