"""A TCP proxy between two parts of the stack, to make the network between them bad.

    with Proxy(upstream_port) as proxy:
        ...                      # clients go to 127.0.0.1:proxy.port
        proxy.hold()             # a partition: nothing passes, all of it arrives after `heal`
        proxy.drop()             # what is sent is lost; after `heal` those connections end
        proxy.drop(ANSWERS)      # requests arrive, their answers are lost
        proxy.cut()              # connections end at once, new ones too, until `heal`
        proxy.heal()

It runs in a thread with an event loop of its own; its methods may be called from any thread.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Self

REQUESTS, ANSWERS = "requests", "answers"
CHUNK_BYTES = 64 * 1024
BUFFER_BYTES = 256 * 1024
_RESET = struct.pack("ii", 1, 0)
"""SO_LINGER of a socket whose close is a reset, as when a host dies."""


class Proxy:
    """Forwards 127.0.0.1:`port` to a port of the same machine; a context manager."""

    def __init__(self, upstream_port: int, port: int = 0) -> None:
        self._upstream_port = upstream_port
        self._wanted_port = port
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="proxy", daemon=True)
        self._server: asyncio.Server | None = None
        self._links: set[_Link] = set()
        self._open = asyncio.Event()
        self._delay_s = 0.0
        self._dropped: frozenset[str] = frozenset()
        self._is_cut = False
        self.port = port

    def __enter__(self) -> Self:
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self._listen(), self._loop).result(10)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        asyncio.run_coroutine_threadsafe(self._close(), self._loop).result(10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    @property
    def connections(self) -> int:
        """How many connections there are now."""
        return len(self._links)

    def delay(self, seconds: float) -> None:
        """Let every piece of data wait before it goes on, in both directions."""
        self._call(lambda: setattr(self, "_delay_s", seconds))

    def hold(self) -> None:
        """Let nothing pass; it is kept, as TCP keeps it while a network is parted."""
        self._call(self._open.clear)

    def drop(self, *directions: str) -> None:
        """Lose what is sent, in both directions or in one; new connections are accepted."""
        self._call(lambda: setattr(self, "_dropped", frozenset(directions or (REQUESTS, ANSWERS))))

    def cut(self) -> None:
        """End all connections, and each new one at once."""

        def act() -> None:
            self._is_cut = True
            self._end(self._links)

        self._call(act)

    def heal(self) -> None:
        """Let everything pass again; connections that have lost data end."""

        def act() -> None:
            self._is_cut, self._dropped, self._delay_s = False, frozenset(), 0.0
            self._end({link for link in self._links if link.has_lost})
            self._open.set()

        self._call(act)

    def _call(self, act: Callable[[], object]) -> None:
        """Run in the loop, and return when it is done."""
        done = threading.Event()

        def run() -> None:
            act()
            done.set()

        self._loop.call_soon_threadsafe(run)
        if not done.wait(10):
            raise RuntimeError("the proxy's loop does not answer")

    async def _listen(self) -> None:
        self._open.set()
        self._server = await asyncio.start_server(
            self._accept, "127.0.0.1", self._wanted_port, limit=BUFFER_BYTES
        )
        self.port = self._server.sockets[0].getsockname()[1]

    async def _close(self) -> None:
        assert self._server is not None, "it listens"
        self._server.close()
        self._end(self._links)
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _end(self, links: set[_Link]) -> None:
        for link in set(links):
            link.reset()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        link = _Link(writer)
        self._links.add(link)
        try:
            if self._is_cut:
                return
            upstream = await asyncio.open_connection(
                "127.0.0.1", self._upstream_port, limit=BUFFER_BYTES
            )
            link.writers.append(upstream[1])
            pumps = [
                asyncio.ensure_future(self._pump(link, REQUESTS, reader, upstream[1])),
                asyncio.ensure_future(self._pump(link, ANSWERS, upstream[0], writer)),
            ]
            # Neither protocol half-closes: where one side has ended, the other has nothing to say.
            _, left = await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
            for pump in left:
                pump.cancel()
            await asyncio.gather(*pumps, return_exceptions=True)
        except OSError:
            pass  # nobody listens there: the client's connection ends, too
        finally:
            self._links.discard(link)
            link.reset()

    async def _pump(
        self,
        link: _Link,
        direction: str,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        with contextlib.suppress(OSError):
            while chunk := await reader.read(CHUNK_BYTES):
                await self._open.wait()
                if self._delay_s:
                    await asyncio.sleep(self._delay_s)
                if direction in self._dropped:
                    link.has_lost = True
                    continue
                writer.write(chunk)
                await writer.drain()


class _Link:
    """One client's connection and the one made for it; `has_lost` if data did not arrive."""

    def __init__(self, writer: asyncio.StreamWriter) -> None:
        self.writers = [writer]
        self.has_lost = False

    def reset(self) -> None:
        """End both at once, without a farewell."""
        for writer in self.writers:
            end = writer.get_extra_info("socket")
            with contextlib.suppress(OSError):
                end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
            writer.transport.abort()
