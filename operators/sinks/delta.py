"""Delta tables, without Spark."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.types as pat

from operators.sinks.interface import Changes, Sink, SinkError, WrittenBatch
from operators.sinks.tables import declared_types

if TYPE_CHECKING:
    from deltalake import DeltaTable

_KEYS = "windows.keys"
"""The table property that has the key columns: Delta knows no keys."""
_FINGERPRINT = "windows.fingerprint: {}"
"""The application transaction that has the fingerprint of a query's last batch as its version."""
_DELETED = "windows_deleted"
_LEAVES = (
    pat.is_boolean,
    pat.is_signed_integer,
    pat.is_float32,
    pat.is_float64,
    pat.is_string,
    pat.is_large_string,
    pat.is_binary,
    pat.is_large_binary,
    pat.is_date32,
    pat.is_timestamp,
    pat.is_decimal128,
)


@dataclass(frozen=True, slots=True)
class DeltaSink(Sink):
    """A Delta table, written by the driver with the package `deltalake` (extra `delta`), without Spark or Java.

    A batch is one MERGE, whose commit has the query and the batch's number as its application transaction. A merge
    reads the table's keys and rewrites each file in which a row changes, and each batch with rows is a version of the
    table: use long triggers, and run OPTIMIZE and VACUUM from time to time.

    Values: all types but unsigned integers, durations and times of day; nested ones too.

    Args:
        path: directory of the table, or a URI such as s3://bucket/windows.
        storage_options: credentials and settings of the object store, as `deltalake` takes them.
        create: whether the first batch creates the table if it does not exist.
    """

    path: str
    storage_options: Mapping[str, str] | None = field(default=None, repr=False)
    create: bool = True

    def write(self, changes: Changes) -> bool:
        declared_types(changes.upserts.schema, _declared, "Delta")
        table = self._table(changes)
        _check(table, self.path, changes)
        last = table.transaction_version(changes.query)
        if last is not None and changes.batch <= last:
            return False
        if not changes.empty:
            _merge(table, changes)
        return True

    def last_batch(self, query: str) -> WrittenBatch | None:
        table = self._existing()
        number = None if table is None else table.transaction_version(query)
        if table is None or number is None:
            return None
        return WrittenBatch(number, table.transaction_version(_FINGERPRINT.format(query)))

    def _existing(self) -> "DeltaTable | None":
        try:
            from deltalake import DeltaTable
        except ImportError as missing:
            raise ImportError(
                "DeltaSink needs deltalake: pip install 'spark-stateful-windows[delta]'"
            ) from missing
        options = dict(self.storage_options or {})
        if not DeltaTable.is_deltatable(self.path, options):
            return None
        return DeltaTable(self.path, storage_options=options)

    def _table(self, changes: Changes) -> "DeltaTable":
        found = self._existing()
        if found is not None:
            return found
        if not self.create:
            raise SinkError(f"there is no Delta table at {self.path}: pass create=True, or create it")
        from deltalake import DeltaTable

        schema = pa.schema([field.with_nullable(True) for field in changes.upserts.schema])
        return DeltaTable.create(
            self.path,
            schema,
            mode="ignore",  # another query may have been faster
            configuration={_KEYS: json.dumps(changes.keys)},
            storage_options=dict(self.storage_options or {}),
            raise_if_key_not_exists=False,
        )


def _check(table: "DeltaTable", path: str, changes: Changes) -> None:
    """Refuse a table that cannot take the changes."""
    columns = [one.name for one in table.schema().fields]
    if missing := [name for name in changes.upserts.column_names if name not in columns]:
        raise SinkError(
            f"the Delta table at {path} has no columns {', '.join(missing)}; it has {', '.join(columns)}: "
            "drop them from the rows, or add them to the table, for example with ALTER TABLE ... ADD COLUMNS"
        )
    keys = json.loads(table.metadata().configuration.get(_KEYS, "null"))
    if keys is not None and set(keys) != set(changes.keys):
        raise SinkError(
            f"the Delta table at {path} has the key ({', '.join(keys)}), "
            f"not ({', '.join(changes.keys)}): upsert_to(..., keys=...) must name the table's key columns "
            "without those of the window"
        )


def _merge(table: "DeltaTable", changes: Changes) -> None:
    from deltalake import CommitProperties, Transaction

    source = _source(changes)
    same = " AND ".join(f"(old.{_quoted(k)} IS NOT DISTINCT FROM new.{_quoted(k)})" for k in changes.keys)
    values = {_quoted(name): f"new.{_quoted(name)}" for name in changes.upserts.column_names}
    noted = [
        Transaction(changes.query, changes.batch),
        Transaction(_FINGERPRINT.format(changes.query), changes.fingerprint),
    ]
    merge = table.merge(
        source,
        same,
        source_alias="new",
        target_alias="old",
        commit_properties=CommitProperties(app_transactions=noted),
    )
    merge = merge.when_matched_delete(f"new.{_DELETED}").when_matched_update(values)
    merge.when_not_matched_insert(values, predicate=f"NOT new.{_DELETED}").execute()


def _source(changes: Changes) -> pa.Table:
    """Return deletes and upserts as one table, with a column that tells them apart."""
    schema = pa.schema([one.with_nullable(True) for one in changes.upserts.schema])
    deletes = changes.deletes.cast(pa.schema([schema.field(key) for key in changes.keys]))
    rows = pa.concat_tables([changes.upserts.cast(schema), deletes], promote_options="default")
    return rows.append_column(_DELETED, pa.array(np.arange(rows.num_rows) >= changes.upserts.num_rows))


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def _declared(type_: pa.DataType) -> str | None:
    """Return something if Delta has the type."""
    if pat.is_nested(type_):
        inner: list[Any] = [type_.field(number).type for number in range(type_.num_fields)]
        return "nested" if all(map(_declared, inner)) else None
    return "plain" if any(is_type(type_) for is_type in _LEAVES) else None
