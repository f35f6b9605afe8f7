"""The values that a monitoring system asks for: sums of all batches, and the last values of queries that run."""

from collections import Counter, defaultdict
from threading import Lock

from operators.monitoring.batch import OperatorBatch, QueryRun
from operators.monitoring.exported import GAUGES, TOTALS, Metric
from operators.monitoring.output import BatchOutput

Series = tuple[tuple[str, ...], float]
"""Values of labels, and the value."""


class Values:
    """Holds values between batches and requests, which come on different threads.

    Sums of a query stay after its end, so that the last batches are not lost. Its gauges go away.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._totals: dict[tuple[str, str], dict[str, float]] = {}
        self._custom: Counter[tuple[str, str, str]] = Counter()
        self._gauges: dict[tuple[str, str], dict[str, float]] = {}
        self._lag: dict[tuple[str, str, str], float] = {}
        self._runs: dict[str, str] = {}
        self._running: dict[str, int] = {}

    def started(self, query: QueryRun) -> None:
        """A run started: what an earlier run left goes away."""
        with self._lock:
            self._start(query)

    def _start(self, query: QueryRun) -> None:
        self._forget(query.label)
        self._runs[query.label], self._running[query.label] = query.run_id, 1

    def _forget(self, query: str) -> None:
        self._gauges = {key: values for key, values in self._gauges.items() if key[0] != query}
        self._forget_lag(query)

    def _forget_lag(self, query: str) -> None:
        self._lag = {key: value for key, value in self._lag.items() if key[0] != query}

    def add(self, batch: OperatorBatch) -> None:
        """Take over a batch."""
        key = batch.query.label, batch.operator
        with self._lock:
            if self._runs.get(batch.query.label) != batch.query.run_id:
                self._start(batch.query)
            totals = self._totals.setdefault(key, defaultdict(float))
            for metric in TOTALS:
                totals[metric.name] += metric.value(batch) or 0
            _set_gauges(self._gauges.setdefault(key, {}), batch)
            self._forget_lag(batch.query.label)
            self._lag.update(
                {
                    (batch.query.label, topic, str(partition)): value
                    for (topic, partition), value in batch.lag.items()
                }
            )
            self._custom.update({(*key, name): value for name, value in batch.custom.items()})

    def ended(self, query: QueryRun, error: str | None) -> None:
        """A run ended. Nothing changes if the next run of the same query was announced before."""
        with self._lock:
            if self._runs.get(query.label) != query.run_id:
                return
            self._forget(query.label)
            del self._runs[query.label], self._running[query.label]
            if error is not None:
                self._running[query.label] = 0

    def of(self, metric: Metric) -> list[Series]:
        """Return a metric's values by query and operator."""
        held = self._totals if metric.total else self._gauges
        with self._lock:
            return [(key, values[metric.name]) for key, values in held.items() if metric.name in values]

    def custom(self) -> list[Series]:
        """Return the counts of custom operators by query, operator and count."""
        with self._lock:
            return list(self._custom.items())

    def lag(self) -> list[Series]:
        """Return the records that the last batch left, by query, topic and partition."""
        with self._lock:
            return list(self._lag.items())

    def running(self) -> list[Series]:
        """Return 1 for each query that runs, and 0 for each that ended with an error."""
        with self._lock:
            return [((query,), value) for query, value in self._running.items()]


class ValuesOutput(BatchOutput):
    """An output to a system that asks for values from time to time."""

    def __init__(self) -> None:
        self._values = Values()

    def started(self, query: QueryRun) -> None:
        """Show the query as running."""
        self._values.started(query)

    def report(self, batch: OperatorBatch) -> None:
        """Add the batch to the sums, and set the gauges."""
        self._values.add(batch)

    def ended(self, query: QueryRun, error: str | None) -> None:
        """Remove the gauges of the query; one that failed is shown as not running."""
        self._values.ended(query, error)


def _set_gauges(held: dict[str, float], batch: OperatorBatch) -> None:
    """Set those that the batch knows.

    A batch in which no bucket had anything to do leaves the sizes of the state as they were.
    """
    for metric in GAUGES:
        value = metric.value(batch)
        if value is not None and (batch.whole_state or not metric.of_state):
            held[metric.name] = value
