"""The contract of sinks on both formats, where it applies to merge_to."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from operators.sinks import Changes, Sink, SinkError, WrittenBatch, merge_to
from operators.sinks.contract.base import VALUES
from operators.sinks.contract.layouts import LayoutContract
from operators.sinks.contract.repeats import RepeatContract
from operators.sinks.contract.rows import RowContract
from operators.sinks.contract.values import ValueContract
from operators.sinks.lake_tables import lake_table
from tests.lake.conftest import Place, place_of

pytestmark = pytest.mark.usefixtures("spark")


@dataclass(frozen=True)
class Merged(Sink):
    """merge_to as a sink: changes are a frame of updates and retracts."""

    place: Place

    def write(self, changes: Changes) -> bool:
        before = self.last_batch(changes.query)
        words = [(changes.upserts, "update"), (changes.deletes, "retract")]
        parts = [rows.append_column("change", pa.array([word] * len(rows))) for rows, word in words]
        rows = pa.concat_tables(parts, promote_options="default")
        merge = merge_to(self.place.name, keys=changes.keys, query=changes.query)
        merge(SparkSession.active().createDataFrame(rows), changes.batch)
        return changes.empty or before != self.last_batch(changes.query)

    def last_batch(self, query: str) -> WrittenBatch | None:
        if not self.place.path.exists():
            return None
        table, _ = lake_table(SparkSession.active(), self.place.name, None)
        notes = table.notes(query)
        return WrittenBatch(notes[0].batch, notes[0].fingerprint) if notes else None


class LakeContract(RowContract, LayoutContract, ValueContract):
    """Promises about rows, tables and values, and that queries are counted apart.

    What a repetition with other rows does is a rule of merge_to itself, which refuses it: test_merge.py.
    """

    format: ClassVar[str]
    batches = 4
    refused = ()

    @pytest.fixture
    def place(self, folder: Path, request: pytest.FixtureRequest) -> Any:
        return lambda table: place_of(folder, self.format, f"{request.node.name.lower()}_{table}")

    def sink(self, place: Any, table: str) -> Sink:
        return Merged(place(table))

    def read(self, place: Any, table: str, schema: pa.Schema) -> pa.Table:
        found: pa.Table = place(table).table().select(schema.names).cast(schema)
        return found

    test_a_new_table_has_no_batch = RepeatContract.test_a_new_table_has_no_batch
    test_queries_are_counted_apart = RepeatContract.test_queries_are_counted_apart


class TestDelta(LakeContract):
    """A table of Delta."""

    format = "delta"

    def test_awkward_names(self, place: Any) -> None:
        """Delta refuses some characters in names, unless the table has column mapping."""
        with pytest.raises(SinkError, match="DELTA_INVALID_CHARACTERS_IN_COLUMN_NAMES"):
            super().test_awkward_names(place)


class TestIceberg(LakeContract):
    """A table of Iceberg."""

    format = "iceberg"
    held: ClassVar[Mapping[str, pa.Array]] = {
        name: values for name, values in VALUES.items() if name != "structs"
    }
    """Not lists of structs: PyIceberg 0.12 reads the null one as an empty one, which the file of data does not have."""
