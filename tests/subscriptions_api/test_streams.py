"""NDJSON both ways: lines are the same however they arrive, and nobody waits for anybody."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager

import httpx
import pytest
import uvicorn
from hypothesis import given
from hypothesis import strategies as st

from subscriptions_api import streams
from subscriptions_api.streams import Spool, chunks, lines_of
from tests.subscriptions_api.client import NDJSON, Api, pieces


async def gathered(parts: list[bytes], read: Callable[..., AsyncIterator[bytes]]) -> list[bytes]:
    return [one async for one in read(pieces(parts))]


@given(st.lists(st.binary(max_size=6).map(lambda raw: raw.replace(b"\0", b"\n")), max_size=12))
def test_lines_do_not_depend_on_how_a_body_is_cut(parts: list[bytes]) -> None:
    whole = b"".join(parts).split(b"\n")
    expected = whole[:-1] if whole[-1] == b"" else whole
    assert asyncio.run(gathered(parts, lines_of)) == expected


@given(st.integers(1, 7), st.lists(st.integers(0, 9), max_size=6))
def test_a_line_over_the_limit_is_one_line_and_its_rest_is_gone(cut: int, sizes: list[int]) -> None:
    body = b"\n".join(b"x" * size for size in sizes)
    parts = [body[at : at + cut] for at in range(0, len(body), cut)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(streams, "LINE_BYTES_MAX", 4)
        lines = asyncio.run(gathered(parts, lines_of))
    whole = [b"x" * min(size, 5) for size in sizes]
    assert lines == (whole[:-1] if whole and not whole[-1] else whole)


@given(st.integers(1, 50), st.lists(st.integers(0, 9), max_size=40))
def test_chunks_do_not_depend_on_how_a_body_is_cut(cut: int, sizes: list[int]) -> None:
    body = b"".join(b"x" * size + b"\n" for size in sizes)

    async def gather(parts: list[bytes]) -> list[list[bytes]]:
        return [chunk async for chunk in chunks(pieces(parts))]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(streams, "CHUNK_OPERATIONS", 5)
        patch.setattr(streams, "CHUNK_BYTES", 20)
        parts = [body[at : at + cut] for at in range(0, len(body), cut)]
        found = asyncio.run(gather(parts))
        assert found == asyncio.run(gather([body]))
    assert [len(line) for chunk in found for line in chunk] == sizes
    assert all(len(chunk) <= 5 and sum(map(len, chunk[:-1])) < 20 for chunk in found)


def test_a_spool_gives_back_what_it_got_through_its_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "SPOOL_MEMORY_BYTES", 10)

    async def run() -> bytes:
        with Spool() as spool:
            for number in range(100):
                spool.put(b"%d," % number)
            begun = await spool.take()
            spool.put(b"end")
            spool.end()
            return begun + await spool.take() + await spool.take()

    assert asyncio.run(run()) == b"".join(b"%d," % number for number in range(100)) + b"end"


@contextmanager
def served(api: Api) -> Iterator[str]:
    """The API under uvicorn, at an address."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        config = uvicorn.Config(api.app, log_config=None, access_log=False)
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, args=([listening],))
        thread.start()
        deadline = time.monotonic() + 30
        while not server.started and time.monotonic() < deadline:
            time.sleep(0.01)
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        server.should_exit = True
        thread.join()


def test_a_client_that_sends_everything_first_is_answered() -> None:
    """The answers are more than sockets hold: were they not kept, both sides would wait."""
    line = b'{"nobody": "%s"}\n' % (b"x" * 30)
    count = 40_000
    with served(Api()) as address, httpx.Client(base_url=address, timeout=120) as client:
        parts = (line * 1_000 for _ in range(count // 1_000))
        answer = client.post("/v1/subscriptions:batch", content=parts, headers=NDJSON)
        assert answer.status_code == 200
        assert answer.content.count(b'"status":422') == count
        assert len(answer.content) > 6_000_000


def test_answers_come_while_the_body_is_still_being_sent() -> None:
    request = (
        b"POST /v1/subscriptions:batch HTTP/1.1\r\nHost: 127.0.0.1\r\n"
        b"Content-Type: application/x-ndjson\r\nTransfer-Encoding: chunked\r\n\r\n"
    )
    lines = b"".join(b'{"op":"delete","id":"%d"}\n' % number for number in range(500))
    with served(Api()) as address:
        port = int(address.rpartition(":")[2])
        with socket.create_connection(("127.0.0.1", port), timeout=30) as connection:
            connection.sendall(request + b"%x\r\n%s\r\n" % (len(lines), lines))
            answer = b""
            while b'"line":500,' not in answer:
                answer += connection.recv(65536)
            last = b'{"id":"a","expr":"x = 1"}'
            connection.sendall(b"%x\r\n%s\r\n0\r\n\r\n" % (len(last), last))
            while not answer.endswith(b"0\r\n\r\n"):
                answer += connection.recv(65536)
    assert b'"line":501,"status":201,"id":"a"' in answer


def test_a_client_that_leaves_keeps_what_was_written_and_the_server() -> None:
    api = Api()
    request = (
        b"POST /v1/subscriptions:batch HTTP/1.1\r\nHost: 127.0.0.1\r\n"
        b"Content-Type: application/x-ndjson\r\nTransfer-Encoding: chunked\r\n\r\n"
    )
    lines = b"".join(b'{"id":"%d","expr":"x = 1"}\n' % number for number in range(500))
    with served(api) as address:
        port = int(address.rpartition(":")[2])
        with socket.create_connection(("127.0.0.1", port), timeout=30) as connection:
            connection.sendall(request + b"%x\r\n%s\r\n" % (len(lines), lines))
            assert b"200 OK" in connection.recv(65536)
        assert httpx.get(f"{address}/v1/subscriptions/499").status_code == 200
