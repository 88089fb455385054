"""Every limit on filters and events, with its default.

The defaults are the contract's; a service may lower or raise them by passing another `Limits`.
Each is tested at its value and one beyond.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds that keep one filter or one event from costing more than its share.

    filter_bytes        UTF-8 text of one filter, in either form.
    filter_predicates   predicates of one filter; a list of values or needles counts as one.
    filter_list_values  values in one list.
    filter_nesting      parentheses, NOT, `[ ]` and ATLEAST open at one place.
    event_bytes         payload of one event.
    event_depth         objects and arrays inside each other; the event itself is 1.
    event_values        leaf values of one event, array elements included.
    """

    filter_bytes: int = 1_048_576
    filter_predicates: int = 8_192
    filter_list_values: int = 10_000
    filter_nesting: int = 32
    event_bytes: int = 1_048_576
    event_depth: int = 32
    event_values: int = 4_096


LIMITS = Limits()

REGEX_PROGRAM_BYTES_MAX = 1_048_576
"""Memory RE2 may spend on one compiled pattern; not a setting, because every process that holds
the same subscriptions must accept the same patterns."""

DURATION_NS_MAX = 2**63 - 1
"""The largest offset of NOW(), about 292 years: it must fit an int64 of nanoseconds."""
