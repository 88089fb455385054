"""Who asks: API keys, their tenants and scopes.

The keys file has one JSON object a line; only a hash of the key is kept:

    {"tenant": "acme", "scopes": ["publish", "subscribe"], "blake2b": "9f...", "name": "billing"}
"""

from __future__ import annotations

import hashlib
import logging
import os
import threading
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

import orjson

from store.records import check_name
from subscriptions_api.errors import Problem

_log = logging.getLogger(__name__)

DEFAULT_TENANT = "default"
KEY_PREFIX = "herald_"


class Scope(StrEnum):
    """What a key may do."""

    PUBLISH = "publish"
    SUBSCRIBE = "subscribe"
    ADMIN = "admin"


@dataclass(frozen=True, slots=True)
class Caller:
    """Whoever sent a request."""

    tenant: str
    scopes: frozenset[Scope]

    def require(self, scope: Scope) -> None:
        """Refuse a caller without the scope; admin has every scope."""
        if scope not in self.scopes and Scope.ADMIN not in self.scopes:
            raise Problem("forbidden", f"this needs the scope {scope.value}")


LOCAL_CALLER = Caller(DEFAULT_TENANT, frozenset(Scope))
"""Everyone who can reach the loopback address, as long as there are no keys."""


class KeysFileError(ValueError):
    """The keys file cannot be used; says which line, and why."""


class KeyRing:
    """The known keys; a changed file is read anew, so a key can be added or withdrawn any time."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._stamp: tuple[int, int] | None = None
        self._callers: dict[str, Caller] = {}
        if path is not None:
            self._stamp, self._callers = stamp_of(path), read_keys(path)

    @property
    def required(self) -> bool:
        """Whether a caller needs a key."""
        return self._path is not None

    def caller(self, key: str | None) -> Caller:
        """The caller with this key; Problem `unauthorized` if nobody has it."""
        if self._path is None:
            return LOCAL_CALLER
        if key is None:
            raise Problem(
                "unauthorized", "no API key was sent", "send Authorization: Bearer YOUR-KEY"
            )
        self._reload()
        caller = self._callers.get(digest(key))
        if caller is None:
            raise Problem("unauthorized", "the API key is not known")
        return caller

    def _reload(self) -> None:
        assert self._path is not None, "there is a file"
        with self._lock:
            try:
                stamp = stamp_of(self._path)
                if stamp != self._stamp:
                    self._callers, self._stamp = read_keys(self._path), stamp
            except KeysFileError as error:  # half written, perhaps: the keys known so far hold
                _log.error("the keys stay as they were: %s", error)


def stamp_of(path: Path) -> tuple[int, int]:
    """What changes when the file does."""
    try:
        status = os.stat(path)
    except OSError as error:
        raise KeysFileError(f"cannot read {path}: {error.strerror}") from None
    return status.st_mtime_ns, status.st_size


def read_keys(path: Path) -> dict[str, Caller]:
    """Callers by the hash of their key."""
    callers = {}
    try:
        lines = path.read_bytes().splitlines()
    except OSError as error:
        raise KeysFileError(f"cannot read {path}: {error.strerror}") from None
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            entry = orjson.loads(line)
            scopes = frozenset(Scope(scope) for scope in entry["scopes"])
            callers[str(entry["blake2b"])] = Caller(check_name("tenant", entry["tenant"]), scopes)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise KeysFileError(f"{path}, line {number}: {error!r}") from None
    return callers


def digest(key: str) -> str:
    """What is kept of a key. Keys are 256 random bits, so a slow hash would add nothing."""
    return hashlib.blake2b(key.encode(), digest_size=32).hexdigest()


def key_of(authorization: str | None, x_api_key: str | None) -> str | None:
    """The key that a request carries in either of the two headers."""
    if x_api_key:
        return x_api_key
    scheme, _, key = (authorization or "").partition(" ")
    return key.strip() if scheme.lower() == "bearer" and key.strip() else None
