"""The proxy: what passes, what waits, what is lost, and what ends."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from deploy.broker import properties
from deploy.environment import free_port
from deploy.proxy import ANSWERS, REQUESTS, Proxy

QUIET_S = 0.2


class Echo:
    """A server that sends back what it gets, and keeps it."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        self.heard = b""
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=[connection], daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with connection:
            try:
                while data := connection.recv(4096):
                    self.heard += data
                    connection.sendall(data)
            except OSError:
                pass

    def close(self) -> None:
        self._listener.close()


@pytest.fixture
def echo() -> Iterator[Echo]:
    server = Echo()
    yield server
    server.close()


@pytest.fixture
def proxy(echo: Echo) -> Iterator[Proxy]:
    with Proxy(echo.port) as running:
        yield running


@pytest.fixture
def client(proxy: Proxy) -> Iterator[socket.socket]:
    with connect(proxy) as connection:
        assert ask(connection, b"hello") == b"hello"
        yield connection


def connect(proxy: Proxy) -> socket.socket:
    connection = socket.create_connection(("127.0.0.1", proxy.port))
    connection.settimeout(5)
    return connection


def ask(connection: socket.socket, words: bytes) -> bytes:
    connection.sendall(words)
    return connection.recv(4096)


def is_silent(connection: socket.socket) -> bool:
    connection.settimeout(QUIET_S)
    try:
        connection.recv(4096)
    except TimeoutError:
        return True
    finally:
        connection.settimeout(5)
    return False


def has_ended(connection: socket.socket) -> bool:
    try:
        return connection.recv(4096) == b""
    except ConnectionError:
        return True


def test_what_is_held_arrives_after_healing(
    client: socket.socket, proxy: Proxy, echo: Echo
) -> None:
    proxy.hold()
    client.sendall(b"later")
    assert is_silent(client)
    assert echo.heard == b"hello"
    proxy.heal()
    assert client.recv(4096) == b"later"


def test_what_is_dropped_never_arrives_and_its_connection_ends(
    client: socket.socket, proxy: Proxy, echo: Echo
) -> None:
    proxy.drop()
    client.sendall(b"lost")
    assert is_silent(client)
    proxy.heal()
    assert has_ended(client)
    assert echo.heard == b"hello"
    with connect(proxy) as other:
        assert ask(other, b"again") == b"again"


def test_a_lost_answer_belongs_to_a_request_that_arrived(
    client: socket.socket, proxy: Proxy, echo: Echo
) -> None:
    proxy.drop(ANSWERS)
    client.sendall(b" there")
    assert is_silent(client)
    assert echo.heard == b"hello there"
    proxy.heal()
    assert has_ended(client)


def test_a_quiet_connection_outlives_a_drop(client: socket.socket, proxy: Proxy) -> None:
    proxy.drop(REQUESTS)
    proxy.heal()
    assert ask(client, b"still") == b"still"


def test_a_cut_ends_connections_old_and_new(client: socket.socket, proxy: Proxy) -> None:
    proxy.cut()
    assert has_ended(client)
    with connect(proxy) as refused:
        assert has_ended(refused)
    proxy.heal()
    with connect(proxy) as other:
        assert ask(other, b"again") == b"again"


def test_a_delay_makes_both_ways_longer(client: socket.socket, proxy: Proxy) -> None:
    proxy.delay(0.1)
    started = time.monotonic()
    assert ask(client, b"slow") == b"slow"
    assert time.monotonic() - started >= 0.2


def test_a_server_that_is_away_ends_the_connection(echo: Echo) -> None:
    with Proxy(free_port()) as proxy, connect(proxy) as client:
        assert has_ended(client)
        assert proxy.connections == 0


def test_a_broker_tells_the_clients_of_a_proxy_the_proxys_port() -> None:
    lines = properties(Path("/data"), 9092, 9093, "9094:9095").splitlines()
    assert (
        "listeners=PLAINTEXT://127.0.0.1:9092,SECOND://127.0.0.1:9094,CONTROLLER://127.0.0.1:9093"
        in lines
    )
    assert "advertised.listeners=PLAINTEXT://127.0.0.1:9092,SECOND://127.0.0.1:9095" in lines
