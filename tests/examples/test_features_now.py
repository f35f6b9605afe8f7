"""The service answers real requests while the stream runs, is killed, and goes on."""

import datetime as dt
import json
import random
import socket
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import urlencode
from urllib.request import urlopen

import pyarrow as pa
import pytest

from tests.effort import soak
from tests.faults.processes import kill_all, start
from tests.operators.spark.frames import write_numbered
from tests.patience import files, wait_until

pytestmark = [pytest.mark.slow, pytest.mark.spark]
BEGIN = dt.datetime(2026, 1, 5, 8, tzinfo=dt.timezone.utc)
AT = BEGIN + dt.timedelta(hours=3)
PAYMENTS, FILES = 7, 8
"""Payments of a card in each file."""


def write_payments(folder: Path, number: int) -> None:
    """Write a file with some payments of each of two cards."""
    times = [BEGIN + dt.timedelta(minutes=number, seconds=n) for n in range(PAYMENTS)]
    table = pa.table(
        {
            "card": ["gold"] * PAYMENTS + ["blue"] * PAYMENTS,
            "at": pa.array([*times, *times], pa.timestamp("us", "UTC")),
            "amount": [1.0] * (2 * PAYMENTS),
        }
    )
    write_numbered(table, folder, number)


def free_port() -> int:
    """Return a port that nobody listens on."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def ask(port: int, card: str, **given: str) -> tuple[int, dict[str, Any]]:
    """Return status and answer of a request."""
    try:
        with urlopen(f"http://127.0.0.1:{port}/cards/{card}?{urlencode(given)}") as answer:
            return answer.status, json.load(answer)
    except HTTPError as refused:
        return refused.code, json.load(refused)


@contextmanager
def running(folder: Path, mark: str, *arguments: str, env: Mapping[str, str] | None = None) -> Iterator[None]:
    """Run the example until the block ends, and kill it then."""
    command = [sys.executable, "-m", "examples.features_now", *arguments]
    given = {"SPARK_LOCAL_IP": "127.0.0.1", **(env or {})}
    process = start(command, folder / f"{arguments[0]}.log", mark, given)
    try:
        yield
    finally:
        kill_all(process.pid)
        process.wait()


def answers(port: int) -> bool:
    """Whether the service is there."""
    try:
        ask(port, "gold")
    except URLError:
        return False
    return True


def batch_of(port: int) -> int:
    """The batch of the service's answers, or -1."""
    return int(ask(port, "gold", at=AT.isoformat())[1].get("batch", -1))


def test_a_quiet_stream_is_told_from_a_dead_one(tmp_path: Path) -> None:
    """While it waits for payments, its table is current; once it is killed, the service refuses to answer."""
    payments, table, port = tmp_path / "payments", str(tmp_path / "features.db"), free_port()
    payments.mkdir()
    write_payments(payments, 0)
    mark, asked = f"features-quiet-{random.randrange(2**32)}", {"at": AT.isoformat(), "max_age": "3 seconds"}
    idle = {"PYSPARK_SUBMIT_ARGS": "--conf spark.sql.streaming.noDataProgressEventInterval=500 pyspark-shell"}
    with running(tmp_path, mark, "serve", table, str(port)):
        wait_until(lambda: answers(port), "the service", files(tmp_path))
        with running(tmp_path, mark, "publish", str(payments), table, env=idle):
            wait_until(lambda: batch_of(port) >= 0, "the batch", files(tmp_path))
            written = time.monotonic()

            def is_current() -> bool:
                return time.monotonic() > written + 6 and ask(port, "gold", **asked)[0] == 200

            wait_until(is_current, "a quiet stream", files(tmp_path))
        wait_until(lambda: ask(port, "gold", **asked)[0] == 503, "a dead stream", files(tmp_path))
        assert "see whether the query runs" in ask(port, "gold", **asked)[1]["error"]
        assert 200 == ask(port, "gold", at=AT.isoformat())[0]


@pytest.mark.parametrize("kills", [1, soak(5)])
def test_the_service_answers_while_the_stream_is_killed(tmp_path: Path, kills: int) -> None:
    """An answer is of a whole batch, and never goes back; at the end it has all payments."""
    payments, table, port = tmp_path / "payments", str(tmp_path / "features.db"), free_port()
    payments.mkdir()
    seed = random.randrange(2**32)
    print(f"seed {seed}")  # noqa: T201 - to repeat the test
    rnd, mark = random.Random(seed), f"features-now-{seed}"
    with running(tmp_path, mark, "serve", table, str(port)):
        wait_until(lambda: answers(port), "the service", files(tmp_path))
        status, refused = ask(port, "gold")
        assert (409, True) == (status, "nothing was published" in refused["error"])
        seen: dict[int, int] = {}
        for number in range(FILES):
            write_payments(payments, number)
        last = -1
        for _ in range(
            kills
        ):  # killed soon after a batch, which may be between the table's commit and Spark's
            with running(tmp_path, mark, "publish", str(payments), table):
                wait_until(lambda before=last: batch_of(port) > before, "a batch", files(tmp_path))
                until = time.monotonic() + rnd.random()
                while time.monotonic() < until:
                    last = check(port, seen, last)
            last = check(port, seen, last)
        with running(tmp_path, mark, "publish", str(payments), table):

            def is_complete() -> bool:
                nonlocal last
                last = check(port, seen, last)
                return seen[last] == FILES * PAYMENTS

            wait_until(is_complete, "all payments", files(tmp_path))
        assert 200 == ask(port, "blue", at=AT.isoformat(), max_age="1 hour")[0]
        status, refused = ask(port, "blue", at=AT.isoformat(), max_age="1 us")
        assert (503, True) == (status, "max_age" in refused["error"])
        assert 409 == ask(port, "blue", at=BEGIN.isoformat())[0]


def check(port: int, seen: dict[int, int], last: int) -> int:
    """Ask for both cards, and return the batch of the later answer.

    Args:
        port: of the service.
        seen: the number of payments that answers of each batch had.
        last: the batch of the answer before.
    """
    for card in ("gold", "blue"):
        status, found = ask(port, card, at=AT.isoformat())
        assert 200 == status, found
        assert found["batch"] >= last, "an answer went back"
        last = found["batch"]
        assert found["n_1d"] == found["n_ever"] == found["spent_ever"]
        assert found["n_ever"] % PAYMENTS == 0, "an answer has a part of a batch"
        assert seen.setdefault(last, found["n_ever"]) == found["n_ever"], "two answers of one batch differ"
    assert [*seen.values()] == sorted(seen.values())
    return last
