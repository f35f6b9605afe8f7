"""Promises about processes that are killed: a batch is written whole, with its number, or not at all."""

import multiprocessing
import random
import time
from itertools import count
from multiprocessing.connection import Connection
from typing import Any

from operators.sinks.contract.base import Contract, changes, check, number_of, row
from operators.sinks.interface import Sink

_ROWS = 40


def write_forever(sink: Sink, ready: Connection) -> None:
    """Write batches that replace every row and delete one, until the process is killed."""
    last = number_of(sink.last_batch("one"))
    for batch in count(0 if last is None else last + 1):
        rows = [row(f"key-{n}", n=batch) for n in range(_ROWS)]
        sink.write(changes(batch, [*rows, row(f"new-{batch}", n=batch)], [row(f"new-{batch - 1}")]))
        ready.send(batch)


class CrashContract(Contract):
    """A process that is killed while it writes leaves the table as after some batch."""

    def test_a_killed_writer_leaves_whole_batches(self, place: Any) -> None:
        """The rows are those of the last batch, which is not older than what was reported."""
        spawn = multiprocessing.get_context("spawn")
        for _ in range(self.kills):
            reader, writer = spawn.Pipe(duplex=False)
            process = spawn.Process(target=write_forever, args=(self.sink(place, "t"), writer), daemon=True)
            process.start()
            writer.close()
            first = reader.recv()
            time.sleep(random.random() / 10)
            process.kill()
            process.join()
            self._is_whole(place, self._reported(reader, first))

    @staticmethod
    def _reported(reader: Connection, last: int) -> int:
        """Return the last batch that the process said was written."""
        try:
            while reader.poll():
                last = reader.recv()
        except EOFError:
            pass
        return last

    def _is_whole(self, place: Any, reported: int) -> None:
        last = number_of(self.sink(place, "t").last_batch("one"))
        check("a batch that was written outlives its process", True, last is not None and last >= reported)
        expected = {row(f"key-{n}", n=last) for n in range(_ROWS)} | {row(f"new-{last}", n=last)}
        check("a batch is written whole, with its number, or not at all", expected, self.rows(place))
