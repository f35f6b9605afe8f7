"""Batches for tests of outputs."""

from datetime import datetime, timedelta, timezone

from operators.monitoring import OperatorBatch, QueryRun
from operators.runtime.metrics import METRICS

RUN = QueryRun("flights", "query-1", "run-1")
START = datetime(2026, 1, 5, 12, tzinfo=timezone.utc)


def batch(number: int = 0, query: QueryRun = RUN, operator: str = "delays", **given: object) -> OperatorBatch:
    """A batch of 10 s each; counts of `<name>_out` by name, the rest by the name of its attribute."""
    own = {name: given.pop(name) for name in ("counts_in", "watermark", "lag") if name in given}
    started = START + timedelta(seconds=10 * number)
    out = dict.fromkeys(METRICS, 0) | given
    return OperatorBatch(query, operator, number, started, 2.5, **{"counts_in": {}, "counts_out": out, **own})
