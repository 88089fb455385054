"""The byte-level decoder against the plain one, on JSON that is out to get it.

Every verdict and every column must be equal. Payloads are decoded by the batch, so that rows that
are refused, odd or plain stand next to each other.
"""

from __future__ import annotations

import json
import random
from collections.abc import Mapping, Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from index.casefold import FOLD_FROM, fold_utf8
from index.columns import EventBatch
from index.decoder import Decoder
from index.errors import EventError
from index.events import decode_buffers, decode_payloads, encode
from index.limits import LIMITS, Limits
from index.numbers import parse_number, split
from index.payloads import Payloads
from index.vocabulary import Vocabulary

PATHS = [
    ("a",),
    ("b",),
    ("a", "b"),
    ("a", "b", "c"),
    ("items",),
    ("items", "sku"),
    ("items", "sku", "a"),
    ("é",),
    ("",),
    ("", "a"),
    ("a.b",),
    ("\U0001f600", "b"),
    ("type",),
    ("data",),
    ("data", "a"),
    ("data", "items", "sku"),
    ("long name of an attribute", "with another below it"),
]
NAMES = [*sorted({name for path in PATHS for name in path}), "x", "y", "A"]

NUMBERS = """
0 -0 0.0 -0.0 1 -1 10 9007199254740991 9007199254740992 9007199254740993 9007199254740993.0
-9007199254740993 9223372036854775807 9223372036854775808 -9223372036854775808 -9223372036854775809
9223372036854775296 9223372036854775295 18446744073709551615 18446744073709551616 1e0 1E5 1e+2 1e-2
1e22 1e23 123456789012345678e-5 0.1 0.30000000000000004 37.77492950000001 5e-324 2e-324 1e-400
1.7976931348623157e308 1.7976931348623159e308 1e308 1e309 1e400 -1e400 0e999999999 0e-99 1e99999999
1e-99999999 100000000000000000000000000000000000000000000e-30 0.000000000000000000000000000001
1.7976931348623158079e308 2.2250738585072011e-308 4.35e0 3.5e1 12345678901234567890.5 0.10e1
01 -01 1. .5 -.5 +1 1e 1e+ 1.e1 - -- 0x1 1_0 00 0.0.0 1e1.5 NaN Infinity -Infinity nan
""".split()

STRINGS = [
    '""', '"UA"', '"ua"', '"Straße"', '"STRASSE"', '"日本語"', '"\U0001f600"', '"K"', '"ſ"', '"Ⱥ"',
    r'"\u0055A"', r'"\n\t\r\b\f\/\\\""', r'"\ud83d\ude00"', r'"\u0000"', r'"\uFFFF"', r'"\u00E9"',
    r'"\ud83d"', r'"\ude00"', r'"\ude00\ud83d"', r'"\ud83dx"', r'"\ud83d\n"', r'"\ud83d\u0041"',
    r'"\u12"', r'"\u12G4"', r'"\x41"', r'"\ "', '"\x00"', '"\x1f"', '"\n"', '"\x7f"', '"', '"abc',
    "'a'", '"' + "long enough for several words of eight bytes " * 3 + '"',
    '"seven77"', '"eight888"', '"sevente\\u0065een more"', '"\\', '"\\"', '"a\\\\"',
]  # fmt: skip
LITERALS = ["true", "false", "null", "True", "tru", "truee", "nul", "fals", "undefined", ""]
# fmt: off
RAW = [b"\xff", b"\xc0\x80", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\xe2\x82", b"\xef\xbb\xbf",
       b"\x80", b"\xf0\x9f\x98\x80", b"\xc3\xa9", b"\xe0\x80\x80", b"\xf0\x80\x80\x80", b"\xc2"]
# fmt: on


@pytest.fixture(scope="module")
def vocabulary() -> Vocabulary:
    vocabulary = Vocabulary(seed=7)
    for path in PATHS:
        vocabulary.attribute(path)
    for text in ("UA", "Straße", "日本語", "", "k", "\x00"):
        vocabulary.string(text.encode())
        vocabulary.string(fold_utf8(text.encode()), folded=True)
    return vocabulary


class Author:
    """Writes JSON texts that are mostly valid, in unusual ways."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def payload(self) -> bytes:
        text = self.space() + self.members(0) + self.space()
        payload = text.encode("utf-8", "surrogatepass")
        return payload if self.random.random() < 0.5 else self.damaged(payload)

    def damaged(self, payload: bytes) -> bytes:
        at = self.random.randrange(len(payload) + 1)
        other = self.random.randrange(len(payload) + 1)
        match self.random.randrange(6):
            case 0:
                return payload[:at]
            case 1:
                return payload[:at] + self.random.choice(RAW) + payload[at:]
            case 2:
                return payload[:at] + bytes([self.random.randrange(256)]) + payload[at + 1 :]
            case 3:
                return payload[:at] + payload[at + 1 :]
            case 4:
                return payload[: max(at, other)] + payload[min(at, other) :]
            case _:
                return (
                    payload[:at] + self.random.choice(list('{}[],:"\\0 ')).encode() + payload[at:]
                )

    def value(self, depth: int) -> str:
        kind = self.random.random()
        if depth > 6 or kind < 0.4:
            likely = self.random.random() < 0.9
            valid = self.random.choice(['"UA"', "1", "2.5", "true", "null", "-7", '"é"', "1e3"])
            odd = self.random.choice(self.random.choice([NUMBERS, STRINGS, LITERALS]))
            return valid if likely else odd
        if kind < 0.65:
            elements = [self.value(depth + 1) for _ in range(self.random.randrange(4))]
            return "[" + self.space() + ",".join(elements) + self.space() + "]"
        return self.members(depth + 1)

    def members(self, depth: int) -> str:
        names = self.random.sample(NAMES, self.random.randrange(6))
        if names and self.random.random() < 0.05:
            names.append(names[0])
        members = [
            f"{self.space()}{self.key(name)}{self.space()}:{self.space()}{self.value(depth)}"
            for name in names
        ]
        return "{" + ",".join(members) + self.space() + "}"

    def key(self, name: str) -> str:
        if self.random.random() < 0.1:
            return '"' + "".join(json.dumps(letter)[1:-1] if ord(letter) > 127 else
                                 f"\\u{ord(letter):04x}" for letter in name) + '"'  # fmt: skip
        return json.dumps(name, ensure_ascii=self.random.random() < 0.2)

    def space(self) -> str:
        return self.random.choice(["", "", "", "", " ", "\n", "\t\r ", "  "])


def rows_of(columns: EventBatch) -> list[list[tuple[int, int, list[object]]]]:
    """A batch as nested Python values, strings with their folded form and both codes."""

    def text(start: np.ndarray, data: np.ndarray, number: int) -> bytes:
        return bytes(data[start[number] : start[number + 1]].tobytes())

    def value(at: int) -> object:
        number = int(columns.value_string[at])
        string = number >= 0 and (
            text(columns.string_start, columns.text, number),
            int(columns.string_code[number]),
            text(columns.folded_start, columns.folded_text, number),
            int(columns.folded_code[number]),
        )
        double, residual = columns.value_number[at], int(columns.value_residual[at])
        return int(columns.value_type[at]), double.hex(), residual, string

    rows = []
    for row in range(columns.entry_start.size - 1):
        entries = []
        for entry in range(columns.entry_start[row], columns.entry_start[row + 1]):
            start, stop = columns.value_start[entry], columns.value_start[entry + 1]
            attribute, flags = columns.entry_attribute[entry], columns.entry_flags[entry]
            entries.append((int(attribute), int(flags), [value(at) for at in range(start, stop)]))
        rows.append(entries)
    return rows


def check(
    payloads: Sequence[bytes],
    vocabulary: Vocabulary,
    limits: Limits = LIMITS,
    context: Sequence[Mapping[str, str] | None] | None = None,
    prefix: tuple[str, ...] = (),
) -> list[str]:
    """Decode both ways and compare; the reasons of the refusals."""
    decoded = decode_payloads(payloads, vocabulary, limits, context, prefix)
    source = Payloads.of(payloads, limits, context, prefix)
    rejected = dict(decoded.rejected)
    events: list[Mapping[str, object]] = []
    for row, payload in enumerate(payloads):
        try:
            events.append(source.event(row))
            assert row not in rejected, payload
        except EventError as error:
            events.append({})
            assert row in rejected and rejected[row].reason == error.reason, payload
    expected = rows_of(encode(events, vocabulary).columns)
    for payload, got, wanted in zip(
        payloads, rows_of(decoded.events.columns), expected, strict=True
    ):
        assert got == wanted, payload
    strings = decoded.events.columns.string_start
    assert decoded.events.columns.text.size == strings[-1] and np.all(np.diff(strings) >= 0)
    return [error.reason for error in rejected.values()]


def never_plainly(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(decoder: Decoder, row: int) -> None:
        raise AssertionError(f"the kernel gave up {decoder.payloads.payload(row)!r}")

    monkeypatch.setattr(Decoder, "_decode_plainly", refuse)


@pytest.mark.parametrize("seed", range(10))
def test_hostile_json_is_decoded_as_the_plain_decoder_does(
    seed: int, vocabulary: Vocabulary
) -> None:
    author = Author(seed)
    payloads = [author.payload() for _ in range(300)]
    reasons = check(payloads, vocabulary)
    assert 20 < len(reasons) < 250, "the texts are neither all bad nor all good"


@given(st.lists(st.binary(max_size=12), max_size=20))
def test_random_bytes(vocabulary: Vocabulary, payloads: list[bytes]) -> None:
    check([b'{"a":' + payload + b"}" for payload in payloads] + payloads, vocabulary)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8),
    lambda child: st.lists(child, max_size=4)
    | st.dictionaries(st.sampled_from(NAMES) | st.text(max_size=3), child, max_size=4),
    max_leaves=20,
)  # fmt: skip


@given(st.lists(st.dictionaries(st.sampled_from(NAMES), json_values, max_size=5), max_size=8))
def test_any_json_object(vocabulary: Vocabulary, events: list[dict[str, object]]) -> None:
    check([json.dumps(event).encode() for event in events], vocabulary)
    check(
        [json.dumps(event, ensure_ascii=False, indent=1).encode() for event in events], vocabulary
    )


@pytest.mark.parametrize("token", [*NUMBERS, *STRINGS, *LITERALS])
def test_one_token_in_every_place(token: str, vocabulary: Vocabulary) -> None:
    forms = ['{{"a":{0}}}', '{{"a":[{0}]}}', '{{"x":{0},"a":1}}', '{{"a": {0} }}', "{0}", "[{0}]"]
    forms += ['{{"a":{{"b":[1,{0}]}}}}', "{{{0}:1}}", '{{"a":1,{0}:2}}', '{{"a":[{0},{0}]}}']
    check([form.format(token).encode("utf-8", "surrogatepass") for form in forms], vocabulary)


@pytest.mark.parametrize("raw", RAW)
def test_bytes_that_are_no_text(raw: bytes, vocabulary: Vocabulary) -> None:
    # fmt: off
    forms = [b'{"a":"%b"}', b'{"%b":1}', b'%b{"a":1}', b'{"a":1}%b', b'{"a":%b1}', b'{"x":["%b"]}',
             b'{"a":"1234567%b"}', b'{"a":"%b12345678"}', b'{"a":"\\n%b"}', b'{"a":"\\%b"}']
    # fmt: on
    check([form % raw for form in forms], vocabulary)


def test_every_prefix_of_a_text(vocabulary: Vocabulary) -> None:
    text = ' {"a": [1, -2.5e3, "x\\u00e9\\ud83d\\ude00é"], "b": {"": null, "é": {}}, "x": true}\n'
    payload = text.encode()
    reasons = check([payload[:size] for size in range(len(payload) + 1)], vocabulary)
    assert len(reasons) == len(payload) - 1


def test_the_same_key_in_two_spellings(vocabulary: Vocabulary) -> None:
    payloads = [
        rb'{"a":1,"\u0061":2}',
        rb'{"x":{"y":{"zz":1,"z\u007a":2}}}',
        rb'{"x":[{"a":1},{"a":1}],"a":{"a":1}}',
        rb'{"\u00e9":1,"\xc3\xa9":2}',
    ]
    payloads.append('{"\\u00e9":1,"é":2}'.encode())
    assert check(payloads, vocabulary).count("duplicate_key") == 3


def test_many_keys_and_many_values(vocabulary: Vocabulary) -> None:
    keys = ",".join(f'"k{number}":{{}}' for number in range(5_000))
    same = ",".join(['{"sku":"s","a":1}'] * 2_000)
    payloads = [f"{{{keys}}}", f'{{{keys},"k17":1}}', f'{{"items":[{same}]}}']
    payloads += [f'{{"items":{json.dumps(list(range(count)))}}}' for count in (4096, 4097)]
    strings = json.dumps({"items": [f"string {number}" for number in range(4096)]})
    reasons = check([*map(str.encode, payloads), strings.encode()] * 2, vocabulary)
    assert sorted(reasons) == ["duplicate_key"] * 2 + ["too_many_values"] * 2


@pytest.mark.parametrize("opening,closing", [('{"a":', "}"), ("[", "]"), ('{"x":[', "]}")])
def test_depth_at_the_limit_and_beyond(opening: str, closing: str, vocabulary: Vocabulary) -> None:
    level = opening.count("{") + opening.count("[")
    texts = []
    for depth in (31, 32, 33, 200, 5_000):
        count = (depth - 1) // level
        texts.append('{"a":' + opening * count + "1" + closing * count + "}")
    reasons = check([text.encode() for text in texts], vocabulary)
    assert "too_deep" in reasons


def test_limits_are_settings(vocabulary: Vocabulary) -> None:
    limits = Limits(event_bytes=20, event_depth=2, event_values=3)
    payloads = [b'{"a":[1,2,3]}', b'{"a":[1,2,3,4]}', b'{"a":[1,[2]]}', b'{"a":"0123456789123"}']
    payloads += [b'{"a":"012345678912"}', b'{"a":1}             ', b'{"a":1}              ']
    reasons = check(payloads, vocabulary, limits)
    assert sorted(reasons) == ["too_deep", "too_large", "too_large", "too_many_values"]


CONTEXTS: list[Mapping[str, str] | None] = [
    None,
    {},
    {"type": "UA", "source": "/s"},
    {"a": "x", "b": "Straße"},
    {"data": "not a CloudEvent's attribute", "type": "t"},
    {"é": "é", "": ""},
    {"type": "\ud800"},
    {"\udfff": "x"},
]


@pytest.mark.parametrize("prefix", [(), ("data",), ("x",), ("a", "b"), ("data", "items")])
def test_context_beside_payloads(prefix: tuple[str, ...], vocabulary: Vocabulary) -> None:
    author = Author(99)
    payloads = [b"", b"{}", b'{"a":1,"type":{"x":1}}', b"[1,2]", b'"UA"', b"1],[2", b'1],"":[2']
    payloads += [b'1],"x":[2', b"null", b' [{"a":1}] ', b'{"a":{}}', b"tru", b'"\\ud800"', b"\xff"]
    payloads += [author.payload() for _ in range(100)]
    for shift in range(len(CONTEXTS)):
        context = [CONTEXTS[(row + shift) % len(CONTEXTS)] for row in range(len(payloads))]
        check(payloads, vocabulary, context=context, prefix=prefix)


def test_a_placed_payload_counts_its_depth_from_the_root(vocabulary: Vocabulary) -> None:
    limits = Limits(event_depth=4)
    payloads = [b'{"a":{"b":1}}', b'{"a":{"b":{"c":1}}}', b"[[[1]]]", b"[[[[1]]]]", b"1"]
    context: list[Mapping[str, str] | None] = [{}] * len(payloads)
    assert check(payloads, vocabulary, limits, context, ("data",)) == ["too_deep"]


def test_plain_events_never_need_the_plain_decoder(
    vocabulary: Vocabulary, monkeypatch: pytest.MonkeyPatch
) -> None:
    never_plainly(monkeypatch)
    events = [
        {
            "a": 1,
            "b": {"c": "é\n\U0001f600"},
            "items": [{"sku": -2.5}, [], [[{}]]],
            "x": {"y": [1]},
        },
        {"a": 0.1 + 0.2, "b": 9007199254740993, "items": [1e-300, 2**63, 1e300]},
        {},
    ]
    payloads = [json.dumps(event, indent=2).encode() for event in events]
    decoded = decode_payloads(payloads, vocabulary)
    assert not decoded.rejected
    assert rows_of(decoded.events.columns) == rows_of(encode(events, vocabulary).columns)


def test_doubles_of_every_size_are_read_exactly(vocabulary: Vocabulary) -> None:
    chance = random.Random(3)
    bits = [chance.getrandbits(64) for _ in range(2_000)]
    doubles = np.array(bits, np.uint64).view(np.float64)
    tokens = [repr(float(double)) for double in doubles if np.isfinite(double)]
    tokens += [f"{chance.randrange(10**chance.randrange(1, 25))}e{chance.randrange(-330, 280)}"
               for _ in range(1_000)]  # fmt: skip
    tokens += [str(chance.randrange(-(2**64), 2**64) >> chance.randrange(64)) for _ in range(1_000)]
    payloads = [f'{{"a":{token}}}'.encode() for token in tokens]
    columns = decode_payloads(payloads, vocabulary).events.columns
    got = list(zip(columns.value_number.tolist(), columns.value_residual.tolist(), strict=True))
    assert got == [split(parse_number(token)) for token in tokens]


def test_every_code_point_folds_as_the_table_says(vocabulary: Vocabulary) -> None:
    codes = [*range(0x250), *FOLD_FROM.tolist(), 0xFFFF, 0x10000, 0x10FFFF, 0xE000, 0xD7FF]
    payload = json.dumps({"items": [f"{chr(code)}x" for code in codes]}).encode()
    check([payload], vocabulary)


def test_buffers_may_be_a_window_of_a_larger_one(vocabulary: Vocabulary) -> None:
    data = np.frombuffer(b'xx{"a":1}{"a":"UA"}yy', np.uint8)
    decoded = decode_buffers(data, np.array([2, 9, 19], np.int32), vocabulary)
    assert decoded.events.event(1) == {"a": "UA"}
    assert rows_of(decoded.events.columns) == rows_of(
        encode([{"a": 1}, {"a": "UA"}], vocabulary).columns
    )


def test_an_empty_batch_and_an_empty_vocabulary() -> None:
    assert len(decode_payloads([], Vocabulary()).events) == 0
    decoded = decode_payloads([b'{"a":1}', b"{"], Vocabulary())
    assert [row for row, _ in decoded.rejected] == [1]
    assert decoded.events.columns.entry_start.tolist() == [0, 0, 0]
