"""A process that runs the first stages of many operators, as a worker of Spark does, and says what they send to the buckets.

    python -m tests.operators.spark.stage_worker FOLDER ARRIVAL AGE

runs the second batch of each operator, and of one that follows it. ARRIVAL is a seed: rows and blobs that come out of a shuffle
arrive in the order, and all rows in batches of the sizes, that follow from it. AGE is `old` for a process that has run the
first batch before, and leaves the journals of its buckets in FOLDER; `new` for one that begins with these.
"""

import json
import shutil
import sys
from contextlib import closing
from datetime import date, timedelta
from decimal import Decimal
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.types as pat
from pyspark import TaskContext

from operators.runtime.batch_clock import Call
from operators.runtime.binding import Binding
from operators.runtime.watermark_rule import WatermarkRule
from operators.spark.inputs import blobs
from operators.spark.inputs.blobs import from_blobs
from operators.spark.inputs.packing import Pack
from operators.spark.replicas.calls import Request, in_place
from operators.spark.stream.job import Job
from state_backends import resolve
from state_backends.durability.pointer import Pointer, read_pointer
from state_backends.sqlite_journal import SqliteJournal
from tests.operators.spark.stage_kinds import KINDS, THREE, bind, following

LABELS = (7, 3, 11)
TASKS = 3
ROWS = 300
BATCH_MS = 2_000
Parts = list[dict[str, Any]]


def main(folder: Path, arrival: int, age: str) -> None:
    """Print the digests of what each task sends, by stage and kind."""
    blobs.BLOB_ROWS = 70  # so that each task sends several
    sent: dict[str, list[str]] = {}
    for kind in KINDS:
        first = bind(kind)
        second = following(first)
        if age == "old":
            before = stage(first, 0, rows_of(first, kind, 0), arrival, shuffled=False)
            for label in LABELS:
                emitted(folder / "old", kind, first, label, 0, before, arrival)
                shutil.copytree(folder / "old" / kind / str(label), folder / "kept" / kind / str(label))
        else:
            shutil.copytree(folder / "kept" / kind, folder / "new" / kind)
        rows = rows_of(first, kind, 1)
        found = stage(first, 1, rows, arrival, shuffled=True)
        sent[f"{kind}, after a shuffle"] = digests(found)
        sent[f"{kind}, from files"] = digests(stage(first, 1, rows, arrival, shuffled=False))
        out = [emitted(folder / age, kind, first, label, 1, found, arrival) for label in LABELS]
        rows = [[_as_input(second, table) for table in tables] for tables in out]
        found = stage(second, 1, rows, arrival, shuffled=True)
        sent[f"what follows {kind}"] = digests(found)
        if kind in THREE:
            third = following(second, "more")
            for label in LABELS:  # before any of its rows is late
                emitted(folder / age, f"after {kind}", second, label, 0, found, arrival)
            out = [emitted(folder / age, f"after {kind}", second, label, 2, [], arrival) for label in LABELS]
            rows = [[_as_input(third, table) for table in tables] for tables in out]
            sent[f"third after {kind}"] = digests(stage(third, 1, rows, arrival, shuffled=True))
    sys.stdout.write(json.dumps(sent))


def stage(
    binding: Binding, batch: int, tasks: list[list[pa.Table]], arrival: int, *, shuffled: bool
) -> Parts:
    """What the tasks of a first stage send."""
    rng = np.random.default_rng([arrival, batch])
    parts = []
    for number, tables in enumerate(tasks):
        batches = []
        if tables:
            table = pa.concat_tables(tables).rename_columns(list(binding.inputs.aliases.values()))
            order = rng.permutation(table.num_rows) if shuffled else np.arange(table.num_rows)
            batches = table.take(order).combine_chunks().to_batches(int(rng.integers(1, 100)))
        _be_task(number, batch)
        pack = Pack(binding, LABELS, tells=True, sorts=shuffled)
        parts += [row for sent in pack(iter(batches)) for row in sent.to_pylist()]
    return parts


def _be_task(number: int, batch: int) -> None:
    """Have this process run a task, as far as PySpark tells it that."""
    context = TaskContext._getOrCreate()
    context._partitionId = number
    context._localProperties = {"streaming.sql.batchId": str(batch), "spark.jobGroup.id": "run"}


def emitted(
    folder: Path, kind: str, binding: Binding, label: int, batch: int, parts: Parts, arrival: int
) -> list[pa.Table]:
    """What a bucket emits for what tasks sent to it, in the order in which this process gets that."""
    home = folder / kind / str(label)
    own = [(part["place"], part["kind"], part["blob"]) for part in parts if part["bucket"] == label]
    order = np.random.default_rng([arrival, label]).permutation(len(own))
    config = resolve("memory", {"state.directory": str(folder / "local")})
    job = Job(binding, config, LABELS, WatermarkRule())
    with closing(SqliteJournal(home / "journal")) as journal:
        pointer = read_pointer(journal) or Pointer.fresh()
        call = Call(watermark_ms=(batch + 1) * BATCH_MS - 500, now_ms=batch)
        given = in_place([own[n] for n in order], config.directory)
        outcome = job.run(journal.get, Request(pointer, label, batch, call, given, begins=True)).write_to(
            journal
        )
        journal.commit()
    return from_blobs(outcome.blobs)


def _as_input(second: Binding, table: pa.Table) -> pa.Table:
    """Rows of an operator as the input of the next one."""
    if "window" in table.column_names:
        table = table.append_column("end", table.column("window").combine_chunks().field("end"))
    elif "ended" in table.column_names:
        table = table.append_column("end", table.column("ended").cast(pa.timestamp("ms", "UTC")))
    return table.select(second.inputs.names)


def rows_of(binding: Binding, kind: str, batch: int) -> list[list[pa.Table]]:
    """The input of each task: values of all types, nulls, and ties."""
    seed = [*kind.encode(), batch]
    rng = np.random.default_rng(seed)
    schema = binding.inputs.empty().schema
    tasks = []
    for _ in range(TASKS):
        columns = {field.name: column(field, rng, batch) for field in schema}
        markers = [name for name in columns if name.endswith(".*")]
        for name, mine in zip(markers, (True, False), strict=False):
            side = np.arange(ROWS) % 2 == int(mine)
            columns[name] = pa.array([True if one else None for one in side], pa.bool_())
        tasks.append([pa.table(columns)])
    return tasks


def column(field: pa.Field, rng: np.random.Generator, batch: int) -> pa.Array:
    """Random values of a type."""
    if pat.is_timestamp(field.type):
        ms = batch * BATCH_MS + rng.integers(0, BATCH_MS, ROWS)
        values: list[Any] = [None if n % 50 == 0 else int(one) * 1_000 for n, one in enumerate(ms)]
        return pa.array(values, pa.timestamp("us")).cast(field.type)
    return pa.array(
        [_value(field.type, rng, few=field.name in ("k", "other")) for _ in range(ROWS)], field.type
    )


def _value(type_: pa.DataType, rng: np.random.Generator, *, few: bool = False) -> Any:
    if rng.random() < 0.1:
        return None
    number = int(rng.integers(1, 4 if few else 30))
    if pat.is_floating(type_):
        return (
            float([0.0, -0.0, float("nan"), 1e16, 1.0][number % 5])
            if number < 5
            else float(rng.standard_normal())
        )
    if pat.is_list(type_):
        return [_value(type_.value_type, rng) for _ in range(number % 4)]
    if pat.is_map(type_):
        return [(f"key {n}", _value(type_.item_type, rng)) for n in range(number % 3)]
    if pat.is_struct(type_):
        return {field.name: _value(field.type, rng) for field in type_}
    plain = {
        "duration[us]": timedelta(milliseconds=number),
        "bool": number % 2 == 0,
        "string": f"text {number}",
        "binary": b"raw %d" % number,
        "date32[day]": date(2026, 1, number),
        "decimal128(20, 4)": Decimal(number) / 4,
    }
    return plain.get(str(type_), number)


def digests(parts: Parts) -> list[str]:
    """Each row for a bucket as a short text, in order."""
    return sorted(
        f"{part['bucket']} {part['kind']} {part['place']} {sha256(part['blob'] or b'').hexdigest()[:12]}"
        for part in parts
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3])
