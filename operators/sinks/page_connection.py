"""How readers keep a connection to a table of pages: over forks, threads and servers that close it."""

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from threading import Lock
from typing import Any, TypeVar

from operators.sinks.interface import SinkError
from operators.sinks.pages import FoundPage, Wanted

T = TypeVar("T")


class ConnectedFinder(ABC):
    """Finds rows over one connection, which is opened again in a forked process, and after an error.

    A connection of the process that this one was forked from is left to it: not even closed here.
    """

    def __init__(self) -> None:
        self._connection: Any = None
        self._process = 0
        self._turn = Lock()

    @property
    @abstractmethod
    def errors(self) -> tuple[type[Exception], tuple[type[Exception], ...]]:
        """The class of all errors of the driver, and those that a connection raises which has ended."""

    @abstractmethod
    def connect(self) -> Any:
        """Return a new connection, which has `close`."""

    @abstractmethod
    def find_over(self, connection: Any, wanted: Sequence[Wanted]) -> list[FoundPage]:
        """Return all rows that are wanted, in one transaction. A table that does not exist has no rows."""

    @abstractmethod
    def refusal(self, error: Any) -> SinkError:
        """Return what a user reads of an error."""

    def find(self, wanted: Sequence[Wanted]) -> list[FoundPage]:
        """Return all rows that are wanted."""
        return self.answer(lambda connection: self.find_over(connection, wanted))

    @abstractmethod
    def now_us(self) -> int:
        """Return the time by the clock of the table's server, in microseconds since the epoch."""

    def answer(self, ask: Callable[[Any], T]) -> T:
        """Return what a function finds over the connection. One that the server has closed meanwhile is opened again."""
        with self._turn:
            any_error, ended = self.errors
            known = self._is_connected
            try:
                return ask(self._connected())
            except any_error as error:
                self._disconnect()
                if not (known and isinstance(error, ended)):
                    raise self.refusal(error) from error
            try:
                return ask(self._connected())
            except any_error as error:
                self._disconnect()
                raise self.refusal(error) from error

    @property
    def _is_connected(self) -> bool:
        return self._connection is not None and self._process == os.getpid()

    def _connected(self) -> Any:
        if not self._is_connected:
            self._connection, self._process = self.connect(), os.getpid()
        return self._connection

    def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None and self._process == os.getpid():
            connection.close()

    def close(self) -> None:
        """Release the connection."""
        with self._turn:
            self._disconnect()
