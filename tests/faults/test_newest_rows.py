"""A driver that is killed between its table's commit and Spark's, with the page's own query: no row differs."""

import json
import sqlite3
import sys
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from operators import RollingWindows
from operators import aggregates as agg
from tests.faults.processes import kill_all, start
from tests.patience import files, wait_until

Row = tuple[Any, ...]


class Receiver:
    """Takes what is pushed, as a store of features does, and answers unless it is told to have the sender wait."""

    def __init__(self) -> None:
        self.pushed: list[set[Row]] = []
        self.answers = threading.Event()
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                columns = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["df"]
                receiver.pushed.append({*zip(*columns.values(), strict=True)})
                if receiver.answers.wait(600):
                    self.send_response(200)
                    self.end_headers()

            def log_message(self, *_: object) -> None:
                """Say nothing."""

        self._server = HTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"http://127.0.0.1:{self._server.server_port}"

    @contextmanager
    def serving(self) -> Iterator["Receiver"]:
        """Serve in the block."""
        thread = threading.Thread(target=self._server.serve_forever)
        thread.start()
        try:
            yield self
        finally:
            self.answers.set()
            self._server.shutdown()
            thread.join()
            self._server.server_close()


def newest(folder: Path) -> set[Row]:
    """The newest row of each card, of all payments at once and without Spark, as the table writes it."""
    op = RollingWindows({"1h": "1 hour"}, grace="10 minutes").group_by("card")
    with op.aggregate(n=agg.count(), spent=agg.sum("amount")).emit("on_arrival").local_runner("at") as runner:
        rows = runner.process(pq.read_table(folder)).to_pylist()
    last = {row["card"]: row for row in sorted(rows, key=lambda row: row["at"])}
    return {
        (card, f"{row['at']:%Y-%m-%d %H:%M:%S.%f}Z", row["n_1h"], row["spent_1h"])
        for card, row in last.items()
    }


def table(folder: Path) -> set[Row]:
    """What the table has."""
    with closing(sqlite3.connect(folder / "serving.db")) as db:
        return {*db.execute("SELECT card, at, n_1h, spent_1h FROM cards")}


@pytest.mark.slow
def test_the_newest_rows_outlive_a_kill_between_the_two_commits(tmp_path: Path, mark: str) -> None:
    """The table has the rows when the driver dies, and Spark has not: the batch comes again, and nothing changes."""
    home = tmp_path / "home"
    home.mkdir()
    commits = home / "checkpoints" / "feast" / "commits"
    with Receiver().serving() as receiver:
        command = [sys.executable, "-m", "tests.faults.newest_rows", str(home), receiver.address]
        process = start(command, tmp_path / "log", mark)
        try:
            wait_until(
                lambda: receiver.pushed or process.poll() is not None, "the first push", files(tmp_path)
            )
            assert receiver.pushed, (tmp_path / "log").read_text()[-4_000:]
        finally:
            kill_all(process.pid)
            process.wait()
        assert not [*commits.glob("[0-9]*")]
        killed = table(home)
        assert killed == newest(home / "payments") == receiver.pushed[0]

        receiver.answers.set()
        process = start(command, tmp_path / "log", mark)
        assert process.wait() == 0, (tmp_path / "log").read_text()[-4_000:]
        assert [*commits.glob("[0-9]*")]
    assert table(home) == killed
    assert receiver.pushed == [killed, killed]
