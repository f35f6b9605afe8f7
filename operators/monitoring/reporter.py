"""Gives batches to outputs: an output that fails is logged, and stops nothing."""

import logging
from collections.abc import Callable, Sequence

from operators.monitoring.batch import OperatorBatch, QueryRun
from operators.monitoring.output import BatchOutput

_LOG = logging.getLogger(__name__)


class Reporter:
    """Passes on what happens to a session's queries.

    Args:
        outputs: each is called with everything, in this order.
    """

    def __init__(self, outputs: Sequence[BatchOutput]) -> None:
        self._outputs = outputs
        self._failing: set[int] = set()
        self._runs: dict[str, QueryRun] = {}

    def started(self, query: QueryRun) -> None:
        """A query started."""
        self._runs[query.run_id] = query
        self._each(lambda output: output.started(query))

    def report(self, batch: OperatorBatch) -> None:
        """An operator worked in a batch."""
        self._runs[batch.query.run_id] = batch.query
        self._each(lambda output: output.report(batch))

    def ended(self, run_id: str, error: str | None) -> None:
        """A run of a query ended. One that was never heard of is left out."""
        query = self._runs.pop(run_id, None)
        if query is not None:
            self._each(lambda output: output.ended(query, error))

    def _each(self, call: Callable[[BatchOutput], None]) -> None:
        for number, output in enumerate(self._outputs):
            try:
                call(output)
            except Exception:  # noqa: BLE001 - an output may raise anything
                if number not in self._failing:
                    _LOG.exception(
                        "the output %s failed; the query goes on. Further errors of this output are not logged until it "
                        "works again",
                        output.name,
                    )
                self._failing.add(number)
            else:
                self._failing.discard(number)
