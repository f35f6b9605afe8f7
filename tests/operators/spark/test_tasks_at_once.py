"""How many tasks an executor runs at once, as the driver knows it."""

from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.sql import SparkSession

from operators.spark.base.executors import tasks_at_once

CORES, TASK = "spark.executor.cores", "spark.task.cpus"


@pytest.mark.parametrize(
    ("conf", "expected"),
    [
        ({"spark.master": "local"}, 1),
        ({"spark.master": "local[3]"}, 3),
        ({"spark.master": "local[3,2]", CORES: "7"}, 3),
        ({"spark.master": "local[*]", CORES: "7"}, None),
        ({"spark.master": "local[*,2]"}, None),
        ({"spark.master": "local-cluster[2,3,1024]", TASK: "2"}, 1),
        ({"spark.master": "local-cluster[2, 4, 1024]", TASK: "2"}, 2),
        ({"spark.master": "yarn"}, 1),
        ({"spark.master": "k8s://https://host:443"}, 1),
        ({"spark.master": "yarn", CORES: "5", TASK: "2"}, 2),
        ({"spark.master": "spark://host:7077"}, None),
        ({"spark.master": "spark://host:7077", CORES: "8"}, 8),
        ({}, None),
        ({CORES: "4", TASK: "8"}, 1),
    ],
)
def test_masters(conf: dict[str, str], expected: int | None) -> None:
    """With the defaults of Spark's documentation; none is known where an executor has all cores of its machine."""
    session: Any = SimpleNamespace(conf=SimpleNamespace(get=conf.get))
    assert expected == tasks_at_once(session)


@pytest.mark.spark
def test_a_session(spark: SparkSession) -> None:
    assert 2 == tasks_at_once(spark)
