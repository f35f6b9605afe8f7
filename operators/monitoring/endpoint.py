"""The HTTP endpoint for Prometheus: what clients do can cost it neither threads nor descriptors without end."""

import errno
import socket
import time
from contextlib import suppress
from socketserver import ThreadingMixIn
from threading import Lock, Thread
from typing import TYPE_CHECKING, Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

_SECONDS = 10.0
"""A request and its answer take no longer, however slowly a client sends or reads."""
_CONNECTIONS = 16
"""Of the connections at one time, the oldest is closed for a new one beyond these: a scrape takes milliseconds."""
_PAUSE = 0.1
"""Seconds after a connection that could not be accepted, as without a free descriptor; it would be tried without end."""


class Endpoint:
    """Serves a registry at `http://ADDRESS:PORT/metrics`, on threads of its own, until `close`.

    Args:
        registry: what is served.
        port: to listen on; 0 takes a free one.
        address: to listen on.
        seconds: the longest time of a connection.
        connections: the greatest number at one time.

    Attributes:
        port: that it listens on.

    Raises:
        OSError: it cannot listen there; names address and port.
    """

    def __init__(
        self,
        registry: "CollectorRegistry",
        port: int,
        address: str,
        seconds: float = _SECONDS,
        connections: int = _CONNECTIONS,
    ) -> None:
        from prometheus_client import make_wsgi_app

        try:
            self._server = _Server(port, address, seconds, connections)
        except OSError as error:
            way_out = ": give another port, or 0 for a free one" if error.errno == errno.EADDRINUSE else ""
            why = error.strerror or str(error)
            raise OSError(
                error.errno, f"metrics cannot be served at {address}, port {port}: {why}{way_out}"
            ) from error
        self._server.set_app(make_wsgi_app(registry))
        self.port = self._server.server_port
        self._thread = Thread(target=self._server.serve_forever, name="windows-metrics", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop listening, and close all connections."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
        self._server.end_all()


class _Server(ThreadingMixIn, WSGIServer):
    """A thread for each connection, few and for a short time."""

    def __init__(self, port: int, address: str, seconds: float, connections: int) -> None:
        self._seconds = seconds
        self._connections = connections
        self._open: dict[socket.socket, tuple[float, Thread]] = {}
        self._lock = Lock()
        self.address_family, *_ = socket.getaddrinfo(
            address, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        super().__init__((address, port), _Handler)

    def get_request(self) -> Any:
        try:
            return super().get_request()
        except OSError:
            time.sleep(_PAUSE)
            raise

    def process_request(self, request: Any, client_address: Any) -> None:
        thread = Thread(target=self.process_request_thread, args=(request, client_address), daemon=True)
        with self._lock:
            self._open[request] = (time.monotonic(), thread)
            oldest = [*self._open][: -self._connections]
        _shut(oldest)
        try:
            thread.start()
        except RuntimeError:  # No thread can be started now.
            self.shutdown_request(request)
            time.sleep(_PAUSE)

    def service_actions(self) -> None:
        """Shut connections that take too long; called twice a second, and after each new one."""
        before = time.monotonic() - self._seconds
        with self._lock:
            slow = [request for request, (since, _) in self._open.items() if since < before]
        _shut(slow)

    def shutdown_request(self, request: Any) -> None:
        with self._lock:
            self._open.pop(request, None)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing of clients that go away, or are sent away."""

    def end_all(self) -> None:
        """Close what is open."""
        with self._lock:
            still = {**self._open}
        _shut(still)
        for _, thread in still.values():
            thread.join()


def _shut(requests: Any) -> None:
    """Let the threads of connections see the end of them, whatever they wait for."""
    for request in requests:
        with suppress(OSError):  # It has ended by itself.
            request.shutdown(socket.SHUT_RDWR)


class _Handler(WSGIRequestHandler):
    """Logs no requests."""

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name of the base class
        """Log nothing."""
