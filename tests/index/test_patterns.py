from __future__ import annotations

import ipaddress
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from index.patterns import compile_regex, parse_address, parse_network


def test_a_regex_searches_unanchored_and_a_dot_stops_at_newlines() -> None:
    assert compile_regex("b").search("abc")
    assert not compile_regex("^b").search("abc")
    assert not compile_regex("a.c").search("a\nc")
    assert compile_regex("(?s)a.c").search("a\nc")
    assert compile_regex("").search("")
    assert compile_regex("^.$").search("😀")


def test_nocase_is_unicode() -> None:
    assert compile_regex("straße", nocase=True).search("STRAẞE")
    assert compile_regex("σ", nocase=True).search("ς")
    assert not compile_regex("σ").search("Σ")


@pytest.mark.parametrize(
    "pattern",
    ["(", "a{1001}", "((a{100}){100}){100}", r"(\pL{50}){10}", "(?=a)", r"(a)\1", "[z-a]"],
)
def test_what_re2_cannot_hold_is_refused_in_its_words(
    pattern: str, capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        compile_regex(pattern)
    assert capfd.readouterr().err == ""


def test_a_pattern_that_traps_backtrackers_is_linear() -> None:
    started = time.process_time()
    assert not compile_regex("(a*)*(a*)*b$").search("a" * 20_000)
    assert time.process_time() - started < 10


@pytest.mark.parametrize(
    ("text", "inside", "outside"),
    [
        ("10.0.0.7/8", "10.255.0.1", "11.0.0.1"),
        ("255.255.255.127/24", "255.255.255.3", "255.255.254.3"),
        ("10.1.2.3", "10.1.2.3", "10.1.2.4"),
        ("0.0.0.0/0", "255.255.255.255", "::"),
        ("2001:db8::/32", "2001:db8::1", "2001:db9::"),
        ("::1", "::1", "::2"),
        ("::ffff:10.0.0.1", "::ffff:10.0.0.1", "10.0.0.1"),
        ("::/0", "::ffff:1.2.3.4", "1.2.3.4"),
    ],
)
def test_a_network_holds_its_addresses(text: str, inside: str, outside: str) -> None:
    assert parse_address(inside) in parse_network(text)
    assert parse_address(outside) not in parse_network(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "10.0.0.0/33",
        "10.0.0.0/",
        "10.0.0.0/08",
        "10.0.0.0/-1",
        "10.0.0.0/255.0.0.0",
        "10.0.0/8",
        "2001:db8::/129",
        "::/+1",
        "fe80::1%eth0/64",
        "10.0.0.0/8/8",
        "10.0.0.0/٨",
    ],
)
def test_what_is_no_network_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        parse_network(text)


@pytest.mark.parametrize(
    "text",
    ["", "not an address", "010.0.0.1", "10.0.0.1 ", "10.0.0", "1.2.3.4.5", "256.0.0.1",
     "fe80::1%eth0", "1::2::3", "12345::", "١.0.0.1", "::ffff:010.0.0.1", "0x7f.0.0.1"],
)  # fmt: skip
def test_what_is_no_address_is_none(text: str) -> None:
    assert parse_address(text) is None


@given(st.ip_addresses())
def test_every_address_is_read(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> None:
    assert parse_address(str(address)) == (address.version, int(address))
