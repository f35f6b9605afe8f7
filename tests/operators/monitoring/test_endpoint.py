"""The endpoint for Prometheus beside clients that do nothing, are many, or come when there are no descriptors left."""

import errno
import socket
import time
import urllib.request
from collections.abc import Iterator

import pytest
from prometheus_client import CollectorRegistry, Gauge, generate_latest

from operators.monitoring.endpoint import Endpoint

REGISTRY = CollectorRegistry()
Gauge("answer", "to all questions", registry=REGISTRY).set(42)
LONG = 3_600.0


def scrape(endpoint: Endpoint) -> str:
    """What Prometheus would get."""
    with urllib.request.urlopen(f"http://127.0.0.1:{endpoint.port}/metrics", timeout=60) as answer:
        return answer.read().decode()


def idle(endpoint: Endpoint, sent: bytes = b"") -> socket.socket:
    """A client that sends a part of a request, or nothing, and waits."""
    client = socket.create_connection(("127.0.0.1", endpoint.port), timeout=60)
    client.sendall(sent)
    return client


def is_ended(client: socket.socket) -> bool:
    """Wait for the end of a connection on which nothing comes."""
    with client:
        try:
            return client.recv(1) == b""
        except ConnectionResetError:
            return True


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    """An endpoint with much patience, for few."""
    endpoint = Endpoint(REGISTRY, 0, "127.0.0.1", seconds=LONG, connections=3)
    yield endpoint
    endpoint.close()


@pytest.mark.parametrize("sent", [b"", b"GET /metrics HTTP/1.1\r\n", b"GET"])
def test_a_client_that_waits_is_sent_away(sent: bytes) -> None:
    """However much of a request it has sent."""
    quick = Endpoint(REGISTRY, 0, "127.0.0.1", seconds=0.1)
    assert is_ended(idle(quick, sent))
    quick.close()


def test_the_oldest_connections_make_room(endpoint: Endpoint) -> None:
    """A few stay, and others are served beside them; the end of the endpoint is the end of all."""
    clients = [idle(endpoint) for _ in range(8)]
    assert all(map(is_ended, clients[:5]))
    assert scrape(endpoint) == generate_latest(REGISTRY).decode()
    endpoint.close()
    assert all(map(is_ended, clients[5:]))


def test_without_descriptors_it_waits(endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    """A connection that cannot be accepted is tried again after a pause, not in an endless loop."""
    accept, failed, pauses = socket.socket.accept, [], []

    def failing(listening: socket.socket) -> object:
        if len(failed) < 3:
            failed.append(1)
            raise OSError(errno.EMFILE, "Too many open files")
        return accept(listening)

    monkeypatch.setattr(socket.socket, "accept", failing)
    monkeypatch.setattr(time, "sleep", pauses.append)
    assert "answer 42.0" in scrape(endpoint)
    assert len(failed) == len(pauses) == 3
    assert all(pause > 0 for pause in pauses)


def test_a_port_in_use_is_named(endpoint: Endpoint) -> None:
    """With the address, and what to do."""
    said = f"metrics cannot be served at 127.0.0.1, port {endpoint.port}: .*in use: give another port, or 0 for a free one"
    with pytest.raises(OSError, match=said) as caught:
        Endpoint(REGISTRY, endpoint.port, "127.0.0.1")
    assert caught.value.errno == errno.EADDRINUSE
    with pytest.raises(OSError, match=r"cannot be served at 203\.0\.113\.1, port 0: "):
        Endpoint(REGISTRY, 0, "203.0.113.1")
    with pytest.raises(OSError, match=r"cannot be served at no\.such\.host\.invalid, port 0: "):
        Endpoint(REGISTRY, 0, "no.such.host.invalid")


def test_addresses_of_both_kinds() -> None:
    """Also IPv6, where the machine has it."""
    try:
        endpoint = Endpoint(REGISTRY, 0, "::1")
    except OSError:
        pytest.skip("no IPv6 here")
    with urllib.request.urlopen(f"http://[::1]:{endpoint.port}/metrics", timeout=60) as answer:
        assert "answer 42.0" in answer.read().decode()
    endpoint.close()
