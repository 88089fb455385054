"""Regular expressions and IP networks, as filters write them and events are tried against them."""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Protocol

import re2

from index.limits import REGEX_PROGRAM_BYTES_MAX

COMPILED_REGEXES_MAX = 2048
"""Programs kept compiled in one process; their memory is bounded by this and by limits.py."""

_PREFIX_LENGTH = re.compile(r"0|[1-9][0-9]{0,2}")
_ADDRESS_CHARACTERS = re.compile(r"[0-9A-Fa-f.:]{2,45}")


class CompiledRegex(Protocol):
    """What the rest of the library uses of RE2's compiled pattern."""

    def search(self, text: str, /) -> object | None:
        """The first place where the pattern holds, or None."""


@dataclass(frozen=True, slots=True)
class Network:
    """A network: family 4 or 6, its masked base address, and its number of leading bits."""

    family: int
    base: int
    prefix_length: int

    def __contains__(self, address: object) -> bool:
        """Whether a parsed address lies inside; the other family never does."""
        if not isinstance(address, tuple) or address[0] != self.family:
            return False
        host_bits = (32 if self.family == 4 else 128) - self.prefix_length
        return bool(address[1] >> host_bits == self.base >> host_bits)


def regex_options(nocase: bool, bytes_max: int) -> re2.Options:
    """How RE2 is asked whether a pattern holds somewhere, in bounded memory."""
    options = re2.Options()
    options.max_mem = bytes_max
    options.log_errors = False
    options.never_capture = True
    options.case_sensitive = not nocase
    return options


@lru_cache(maxsize=COMPILED_REGEXES_MAX)
def compile_regex(pattern: str, nocase: bool = False) -> CompiledRegex:
    """RE2's program for an unanchored search; ValueError with RE2's own words if there is none.

    Time is linear in the text and the program's memory is capped, so no pattern is a trap. NOCASE
    uses RE2's simple folding.
    """
    options = regex_options(nocase, REGEX_PROGRAM_BYTES_MAX)
    try:
        compiled: CompiledRegex = re2.compile(pattern, options=options)
    except re2.error as error:
        reason = error.args[0]
        raise ValueError(
            reason.decode(errors="replace") if isinstance(reason, bytes) else str(reason)
        ) from None
    return compiled


@lru_cache(maxsize=4096)
def parse_network(text: str) -> Network:
    """The network of `address[/prefix length]`, host bits masked; ValueError if it is none.

    >>> parse_network("10.0.0.7/8")
    Network(family=4, base=167772160, prefix_length=8)
    """
    address_text, slash, length_text = text.partition("/")
    address = parse_address(address_text)
    if address is None:
        raise ValueError("not an IPv4 or IPv6 address")
    family, value = address
    bits = 32 if family == 4 else 128
    if not slash:
        return Network(family, value, bits)
    if _PREFIX_LENGTH.fullmatch(length_text) is None or int(length_text) > bits:
        raise ValueError(f"the prefix length of an IPv{family} network is a number up to {bits}")
    length = int(length_text)
    host_bits = bits - length
    return Network(family, value >> host_bits << host_bits, length)


def parse_address(text: str) -> tuple[int, int] | None:
    """Family and value of an IP address in text; None for a zone, a leading zero or anything else.

    An IPv4-mapped address is an IPv6 one.

    >>> parse_address("10.1.2.3"), parse_address("010.0.0.1")
    ((4, 167838211), None)
    """
    if _ADDRESS_CHARACTERS.fullmatch(text) is None:
        return None
    try:
        if ":" in text:
            return 6, int(ipaddress.IPv6Address(text))
        return 4, int(ipaddress.IPv4Address(text))
    except ValueError:
        return None
