"""Processes work for one another if Spark has sent them the same: all of it, not only the same run."""

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from pyspark import cloudpickle

from operators import TumblingWindows
from operators import aggregates as agg
from operators.runtime.watermark_rule import WatermarkRule
from operators.spark.stream.job import Job
from operators.spark.stream.processor import BucketProcessor
from state_backends import resolve

SCHEMA = pa.schema([("k", pa.string()), ("at", pa.int64())])
_RULE = WatermarkRule()


def sent(add: Callable[[Any], Any], rule: WatermarkRule = _RULE, name: str = "n", **options: str) -> str:
    """The digest that a worker gets from the driver."""
    config = resolve("memory", options)
    op = TumblingWindows(10).group_by("k")
    op = op.aggregate(**{name: agg.fold(int, add, type="bigint", name="fold")})
    processor = BucketProcessor(Job(op.bind(SCHEMA, "at", config), config, (0,), rule), "windows")
    return str(cloudpickle.loads(cloudpickle.dumps(processor)).digest)


def test_the_same_is_the_same() -> None:
    def add(state: int) -> int:
        return state + 1

    assert sent(add) == sent(add)
    assert sent(add)


@pytest.mark.parametrize(
    "other",
    [
        lambda: sent(lambda state: state + 2),
        lambda: sent(lambda state: state + 1, WatermarkRule(idle_ms=5)),
        lambda: sent(lambda state: state + 1, name="m"),
        lambda: sent(lambda state: state + 1, **{"state.directory": "/elsewhere"}),
    ],
    ids=["code", "watermark rule", "output", "options"],
)
def test_what_differs_has_another_digest(other: Callable[[], str]) -> None:
    """Also what the stored state does not depend on."""
    assert other() != sent(lambda state: state + 1)


def test_the_digest_is_of_what_is_sent() -> None:
    """With Spark Connect, functions are sent when the query starts: what they refer to may have changed since `apply`."""
    held = [1]
    config = resolve("memory")
    op = TumblingWindows(10).aggregate(n=agg.fold(int, lambda state: state + held[0], type="bigint"))
    processor = BucketProcessor(Job(op.bind(SCHEMA, "at", config), config, (0,), WatermarkRule()), "windows")
    first, again = (cloudpickle.loads(cloudpickle.dumps(processor)).digest for _ in range(2))
    held[0] = 2
    assert first == again != cloudpickle.loads(cloudpickle.dumps(processor)).digest
