"""How outputs are called: with everything, whatever another one raises."""

import logging
from datetime import timedelta

import pytest

from operators import DefinitionError
from operators.monitoring import BatchOutput, OperatorBatch, QueryRun
from operators.monitoring.output import as_output
from operators.monitoring.reporter import Reporter
from tests.operators.monitoring.batches import RUN, START, batch


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


def test_the_state_is_whole_when_the_watermark_has_moved() -> None:
    """In other batches buckets without records may be left out, but not in the first batch of all."""
    recorder = Recorder()
    reporter = Reporter([recorder])
    for number, seconds in enumerate([None, None, 0, 0, 5]):
        watermark = None if seconds is None else START + timedelta(seconds=seconds)
        reporter.report(batch(number, watermark=watermark))
        reporter.report(batch(number, operator="other"))
    assert [True, False, True, False, True] == [one.whole_state for one in recorder.calls[::2]]
    assert [True, False, False, False, False] == [one.whole_state for one in recorder.calls[1::2]]
    reporter.ended("run-1", None)
    restarted = QueryRun("flights", "query-1", "run-2")
    reporter.report(batch(5, restarted, watermark=START))
    assert not recorder.calls[-1].whole_state


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
