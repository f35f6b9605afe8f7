"""How outputs are called: with everything, whatever another one raises."""

import logging

import pytest

from operators import DefinitionError
from operators.monitoring import BatchOutput, OperatorBatch, QueryRun
from operators.monitoring.output import as_output
from operators.monitoring.reporter import Reporter
from tests.operators.monitoring.batches import RUN, batch


class Recorder(BatchOutput):
    """Keeps what it is called with; raises errors that it is given."""

    def __init__(self) -> None:
        self.calls: list[object] = []
        self.error: Exception | None = None

    def started(self, query: QueryRun) -> None:
        self.calls.append(("started", query))

    def report(self, batch: OperatorBatch) -> None:
        if self.error is not None:
            raise self.error
        self.calls.append(batch)

    def ended(self, query: QueryRun, error: str | None) -> None:
        self.calls.append(("ended", query, error))


def test_outputs_hear_of_start_batches_and_end() -> None:
    """Also of the end of a query that ran before, if it had a batch since; of others nothing is known but their end."""
    recorder = Recorder()
    reporter = Reporter([recorder])
    other = QueryRun(None, "query-2", "run-9")
    reporter.started(RUN)
    reporter.report(batch(0))
    reporter.report(batch(0, other))
    reporter.ended("run-1", None)
    reporter.ended("run-9", "Boom")
    reporter.ended("run-77", None)
    assert [
        ("started", RUN),
        batch(0),
        batch(0, other),
        ("ended", RUN, None),
        ("ended", other, "Boom"),
    ] == recorder.calls


def test_an_output_that_fails_is_logged_once_and_stops_nothing(caplog: pytest.LogCaptureFixture) -> None:
    """The next output gets its batch; the error is logged again only after the output has worked in between."""
    broken, recorder = Recorder(), Recorder()
    reporter = Reporter([broken, recorder])
    broken.error = OSError("the disk is full")
    for number in range(3):
        reporter.report(batch(number))
    assert 3 == len(recorder.calls)
    assert ["the output Recorder failed; the query goes on"] == [
        record.getMessage().partition(".")[0] for record in caplog.records
    ]
    assert "the disk is full" in caplog.text
    assert logging.ERROR == caplog.records[0].levelno
    broken.error = None
    reporter.report(batch(3))
    broken.error = OSError("full again")
    reporter.report(batch(4))
    assert 2 == len(caplog.records)


def test_the_state_is_whole_where_buckets_tell_of_it() -> None:
    """Those that work do, and those with state that have nothing to do; a batch without calls of any bucket tells nothing."""
    assert batch(buckets=1).whole_state
    assert batch(live_keys=1).whole_state
    assert not batch().whole_state


def test_a_function_is_an_output() -> None:
    """Named as in the code, for the log."""
    found: list[OperatorBatch] = []

    def keep(one: OperatorBatch) -> None:
        found.append(one)

    output = as_output(keep)
    output.report(batch())
    assert ([batch()], True) == (found, output.name.endswith("keep"))
    for wrong in (Recorder, "prometheus"):
        with pytest.raises(DefinitionError, match="an output must be a BatchOutput"):
            as_output(wrong)
