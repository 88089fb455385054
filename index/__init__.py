"""Herald's matching library: which of very many filters are TRUE of each event of a batch.

    from index import ALGORITHMS, Instant, Subscription, decode_payloads, parse_text

    index = ALGORITHMS["scan"].build([Subscription("late", parse_text("delay > 60"))])
    events, dead_letters = decode_payloads([b'{"delay": 61}', b"not JSON"], index.vocabulary)
    index.ids_by_event(index.match(events, Instant(0, 0)))      # [['late'], []]

What outsiders need is exported here and loaded when it is first asked for, so that a program that
only parses filters does not wait for the compiler of the kernels.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from index.base import MatchIndex
    from index.canonical import filter_hash
    from index.columns import Matches
    from index.errors import EventError, FilterError
    from index.events import Events, decode_buffers, decode_payloads, encode
    from index.filter_json import loads_json, parse_json, to_json
    from index.instants import format_instant, parse_instant
    from index.language import parse_text, to_text
    from index.limits import LIMITS, Limits
    from index.model import Filter, Instant, Subscription
    from index.registry import ALGORITHMS
    from index.statistics import EventStatistics

_HOMES = {
    "index.model": ("Filter", "Instant", "Subscription"),
    "index.language": ("parse_text", "to_text"),
    "index.filter_json": ("loads_json", "parse_json", "to_json"),
    "index.canonical": ("filter_hash",),
    "index.errors": ("EventError", "FilterError"),
    "index.limits": ("LIMITS", "Limits"),
    "index.instants": ("format_instant", "parse_instant"),
    "index.registry": ("ALGORITHMS",),
    "index.base": ("MatchIndex",),
    "index.events": ("Events", "decode_buffers", "decode_payloads", "encode"),
    "index.columns": ("Matches",),
    "index.statistics": ("EventStatistics",),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = [
    "ALGORITHMS",
    "LIMITS",
    "EventError",
    "EventStatistics",
    "Events",
    "Filter",
    "FilterError",
    "Instant",
    "Limits",
    "MatchIndex",
    "Matches",
    "Subscription",
    "decode_buffers",
    "decode_payloads",
    "encode",
    "filter_hash",
    "format_instant",
    "loads_json",
    "parse_instant",
    "parse_json",
    "parse_text",
    "to_json",
    "to_text",
]


def __getattr__(name: str) -> object:
    """Load an exported name from its module."""
    if name not in _HOME_OF:
        raise AttributeError(f"module 'index' has no attribute {name!r}")
    return getattr(import_module(_HOME_OF[name]), name)
