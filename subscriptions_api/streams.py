"""NDJSON in both directions at once: lines of a body in chunks, and answers while it still comes.

Memory is bounded on both sides. Lines are read a chunk at a time. Answers that the client does not
take yet wait in a temporary file, for most clients send their whole body before they read anything:
a server that stopped reading until its answers are taken would wait for them for ever.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from tempfile import SpooledTemporaryFile

from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from subscriptions_api.limits import (
    CHUNK_BYTES,
    CHUNK_OPERATIONS,
    LINE_BYTES_MAX,
    SPOOL_MEMORY_BYTES,
)

SEND_BYTES = 64 * 1024


async def chunks(parts: AsyncIterator[bytes]) -> AsyncIterator[list[bytes]]:
    """Lines in chunks that are the same however the body was cut into parts.

    A line over the limit comes as its beginning, one byte longer than the limit.
    """
    lines, size = list[bytes](), 0
    async for line in lines_of(parts):
        lines.append(line)
        size += len(line)
        if len(lines) >= CHUNK_OPERATIONS or size >= CHUNK_BYTES:
            yield lines
            lines, size = [], 0
    if lines:
        yield lines


async def lines_of(parts: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Lines without their end; of one over the limit, only one byte more than the limit is kept."""
    begun, size = list[bytes](), 0
    async for part in parts:
        first, *others = part.split(b"\n")
        if size <= LINE_BYTES_MAX:
            begun.append(first[: LINE_BYTES_MAX + 1 - size])
            size += len(begun[-1])
        if others:
            yield b"".join(begun)
            for line in others[:-1]:
                yield line[: LINE_BYTES_MAX + 1]
            begun = [others[-1][: LINE_BYTES_MAX + 1]]
            size = len(begun[0])
    if size:
        yield b"".join(begun)


class NdjsonAnswer(Response):
    """Sends what `answers` yields, while `answers` may still be reading the request.

    Starlette's StreamingResponse listens for the client to leave meanwhile, by which it takes
    parts of the body away from whoever reads them.
    """

    media_type = "application/x-ndjson"

    def __init__(self, answers: AsyncIterator[bytes]) -> None:
        super().__init__()
        del self.headers["content-length"]  # Response counted its empty body
        self._answers = answers

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Read and answer until both are done; a client that leaves ends it."""
        with Spool() as spool:
            collecting = asyncio.create_task(self._collect(spool))
            try:
                begun = False
                while answer := await spool.take():
                    if not begun:
                        await send(self._start())
                        begun = True
                    await send({"type": "http.response.body", "body": answer, "more_body": True})
                await collecting  # raises what ended it early
                if not begun:
                    await send(self._start())
                await send({"type": "http.response.body", "body": b"", "more_body": False})
            except ClientDisconnect:
                return
            finally:
                collecting.cancel()

    async def _collect(self, spool: Spool) -> None:
        try:
            async for answer in self._answers:
                spool.put(answer)
        finally:
            spool.end()

    def _start(self) -> Message:
        return {
            "type": "http.response.start",
            "status": self.status_code,
            "headers": self.raw_headers,
        }


class Spool:
    """Bytes on their way from one task to another, in a temporary file once they are many."""

    def __init__(self) -> None:
        self._file = SpooledTemporaryFile[bytes](max_size=SPOOL_MEMORY_BYTES)
        self._written = self._taken = 0
        self._ended = False
        self._news = asyncio.Event()

    def __enter__(self) -> Spool:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def put(self, answer: bytes) -> None:
        """Append."""
        self._file.seek(self._written)
        self._file.write(answer)
        self._written += len(answer)
        self._news.set()

    def end(self) -> None:
        """Say that nothing more comes."""
        self._ended = True
        self._news.set()

    async def take(self) -> bytes:
        """The next bytes, once there are some; b"" at the end."""
        while self._taken == self._written and not self._ended:
            self._news.clear()
            await self._news.wait()
        self._file.seek(self._taken)
        answer = self._file.read(SEND_BYTES)
        self._taken += len(answer)
        return answer
