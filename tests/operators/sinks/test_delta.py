"""What only Delta has: several writers that meet, columns of its own names, panics."""

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from operators import DefinitionError
from operators.sinks import DeltaSink, SinkError, upsert_to
from operators.sinks.contract.base import SCHEMA, changes, number_of, row, tuples
from operators.sinks.interface import Changes
from tests.operators.sinks.reading import read_delta

QUERIES, BATCHES = ("one", "two", "three"), 4


@pytest.mark.slow
def test_queries_that_write_at_once_do_not_fail_each_other(tmp_path: Path) -> None:
    """Each creates the table or finds it, and merges again where another one was faster."""
    path = tmp_path / "t"

    def run(query: str) -> None:
        for batch in range(BATCHES):
            gone = [row(f"{query}-{batch - 1}")] if batch else []
            DeltaSink(str(path)).write(changes(batch, [row(f"{query}-{batch}", n=batch)], gone, query=query))

    with ThreadPoolExecutor(len(QUERIES)) as threads:
        list(threads.map(run, QUERIES))
    last = BATCHES - 1
    assert {row(f"{query}-{last}", n=last) for query in QUERIES} == set(tuples(read_delta(path, SCHEMA)))
    assert [last] * len(QUERIES) == [number_of(DeltaSink(str(path)).last_batch(query)) for query in QUERIES]


@pytest.mark.parametrize("names", [["windows_deleted"], ["Windows_Deleted", "windows_deleted_"]])
def test_a_column_may_have_the_name_of_the_sinks_own(names: list[str], tmp_path: Path) -> None:
    """It is stored as any other."""
    columns = {name: pa.array([True, None]) for name in names}
    rows = pa.table({"k": pa.array([1, 2]), **columns})
    for batch in (0, 1):
        DeltaSink(str(tmp_path / "t")).write(Changes("one", batch, pa.table({"k": pa.array([3])}), rows))
    assert rows.equals(read_delta(tmp_path / "t", rows.schema).sort_by("k"))


def test_what_delta_refuses_is_told_with_the_table(tmp_path: Path) -> None:
    """Names that differ in case only, a log that is damaged, a place that is a file."""
    rows = pa.table({"k": [1], "K": [2]})
    with pytest.raises(SinkError, match=f"the Delta table at {tmp_path}/t cannot be used: .*'K'"):
        DeltaSink(str(tmp_path / "t")).write(Changes("one", 0, rows.select(["k"]).slice(0, 0), rows))
    sink = DeltaSink(str(tmp_path / "damaged"))
    sink.write(changes(0, [row("a")]))
    (log,) = (tmp_path / "damaged" / "_delta_log").glob("*0.json")
    log.write_text("{")
    for act in (sink.check, lambda: sink.last_batch("one"), lambda: sink.write(changes(1))):
        with pytest.raises(SinkError, match=f"the Delta table at {tmp_path}/damaged cannot be used"):
            act()


def test_a_table_that_is_not_to_be_created_is_missed_at_once(tmp_path: Path) -> None:
    """Before a query starts; nothing is created."""
    sink = DeltaSink(str(tmp_path / "t"), create=False)
    with pytest.raises(SinkError, match=f"there is no Delta table at {tmp_path}/t: pass create=True"):
        upsert_to(sink, keys=["k"])
    upsert_to(DeltaSink(str(tmp_path / "t")), keys=["k"])
    assert not (tmp_path / "t").exists()


@pytest.mark.parametrize(
    "path",
    [
        "s3://AKIA:hunter2@bucket/t",
        "s3://AKIA:hun/hunter2@bucket/t",
        "s3://AKIA%3Ahunter2@bucket/t",
        "s3://AKIA%3Ahun/hunter2@bucket/t",
        "s3://hunter2@bucket/t",
        "abfss://container:hunter2@account.dfs.core.windows.net/t",
        "abfss://container@account.dfs.core.windows.net/t?sig=hunter2",
        "gs://bucket/t?client_secret=hunter2",
        "hdfs://u:hunter2@host:9000/t",
    ],
)
def test_paths_with_secrets_are_refused(path: str) -> None:
    """When the sink is made; the message does not show them."""
    with pytest.raises(DefinitionError, match="give credentials as storage_options") as error:
        DeltaSink(path)
    assert "hun" not in str(error.value)


@pytest.mark.parametrize(
    "path",
    [
        "tables/who?.delta",
        "s3://bucket/a@b:c/t",
        "abfss://container@account.dfs.core.windows.net/t",
        "hdfs://host:9000/t",
        "file:///tmp/t",
    ],
)
def test_paths_without_secrets_are_taken(path: str) -> None:
    """And shown; the options of the store are not."""
    shown = repr(DeltaSink(path, {"aws_secret_access_key": "hunter2"}))
    assert f"DeltaSink(path={path!r}, create=True)" == shown


def test_keys_are_a_property_of_the_table(tmp_path: Path) -> None:
    """Which readers see as well."""
    DeltaSink(str(tmp_path / "t")).write(changes(0))
    found = DeltaTable(tmp_path / "t").metadata().configuration
    assert ["k", "window_start"] == json.loads(found["windows.keys"])
