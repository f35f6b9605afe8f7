"""A proxy before a broker that loses or delays the request by which a transaction ends, or the answer to it."""

import socket
import struct
import threading
import time
from collections.abc import Callable
from contextlib import suppress

_END_TXN = 26
"""The number of this request in Kafka's protocol."""


class Proxy:
    """Passes all on, but for the requests of the plan.

    Attributes:
        address: where clients connect.
        plan: what happens to the next requests that end a transaction: "request" or "answer" is lost with its connection, a
            number is a delay in seconds; None passes it on.
        ended: how many such requests came.
    """

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        host, port = self._listener.getsockname()
        self.address = f"{host}:{port}"
        self.plan: list[str | float | None] = []
        self.ended = 0

    def start(self, broker: str) -> None:
        """Pass on to this address from now on."""
        host, port = broker.split(":")
        _begin(lambda: self._accept((host, int(port))))

    def stop(self) -> None:
        self._listener.close()

    def _accept(self, broker: tuple[str, int]) -> None:
        while True:
            try:
                client = self._listener.accept()[0]
            except OSError:
                return
            try:
                server = socket.create_connection(broker)
            except OSError:
                client.close()  # the broker is down
                continue
            _begin(lambda client=client, server=server: self._requests(client, server))
            _begin(lambda client=client, server=server: _answers(server, client))

    def _requests(self, client: socket.socket, server: socket.socket) -> None:
        with client, server:
            while (frame := _frame(client)) is not None:
                if struct.unpack_from(">h", frame, 4)[0] == _END_TXN:
                    self.ended += 1
                    what = self.plan.pop(0) if self.plan else None
                    if what == "answer":
                        _cut(client)
                        server.sendall(frame)
                        time.sleep(0.5)  # the broker ends the transaction
                    if isinstance(what, str):
                        _cut(client)
                        return
                    time.sleep(what or 0)
                try:
                    server.sendall(frame)
                except OSError:
                    return


def _answers(server: socket.socket, client: socket.socket) -> None:
    with suppress(OSError):
        while data := server.recv(1 << 16):
            client.sendall(data)
        _cut(client)


def _frame(client: socket.socket) -> bytes | None:
    """The next request with its length, or None at the end."""
    try:
        size = client.recv(4, socket.MSG_WAITALL)
        if len(size) < 4:
            return None
        return size + client.recv(struct.unpack(">i", size)[0], socket.MSG_WAITALL)
    except OSError:
        return None


def _cut(client: socket.socket) -> None:
    with suppress(OSError):
        client.shutdown(socket.SHUT_RDWR)


def _begin(act: Callable[[], None]) -> None:
    threading.Thread(target=act, daemon=True).start()
