"""Delta tables, without Spark."""

import json
import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.types as pat

from operators.columns.arrow import plain_type
from operators.errors import DefinitionError
from operators.sinks.interface import Changes, Sink, SinkError, WrittenBatch
from operators.sinks.tables import cast_keys, declared_types, free_name, not_older
from state_backends.uris import may_have_password

if TYPE_CHECKING:
    from deltalake import DeltaTable

T = TypeVar("T")
_KEYS = "windows.keys"
"""The table property that has the key columns: Delta knows no keys."""
_FINGERPRINT = "windows.fingerprint: {}"
"""The application transaction that has the fingerprint of a query's last batch as its version."""
_DELETED = "windows_deleted"
"""The column that tells deletes from upserts in what is merged; longer if the rows have one of this name."""
_WAITS = [0.05 * 2**n for n in range(6)] * 3
"""Least seconds before each further try of a merge; each is up to twice as long, so that writers part."""
_CONTAINERS = ("abfs", "abfss", "wasb", "wasbs", "az", "azure", "adl")
"""Schemes whose URIs have a container before the @."""
_WITHOUT_KEYS = ("file", "hdfs")
_PANIC = "PanicException"
_MISSING = "there is no Delta table at {}: pass create=True, or create it"
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
    table: use long triggers, and run OPTIMIZE and VACUUM from time to time. Of two queries that write at once, one
    merges again.

    Values: all types but unsigned integers, durations and times of day; nested ones too.

    Args:
        path: directory of the table, or a URI such as s3://bucket/windows, without credentials.
        storage_options: credentials and settings of the object store, as `deltalake` takes them.
        create: whether the first batch creates the table if it does not exist.

    Raises:
        DefinitionError: `path` has a user, a password or a query; the message does not show it.
    """

    keeps_latest: ClassVar[bool] = True
    path: str
    storage_options: Mapping[str, str] | None = field(default=None, repr=False)
    create: bool = True

    def __post_init__(self) -> None:
        _check_path(str(self.path))

    def check(self) -> None:
        with _in_words(self.path):
            if self._existing() is None and not self.create:
                raise SinkError(_MISSING.format(self.path))

    def write(self, changes: Changes) -> bool:
        declared_types(changes.upserts.schema, _declared, "Delta")
        with _in_words(self.path):
            return self._repeated(lambda: self._try_to_write(changes))

    @staticmethod
    def _repeated(act: Callable[[], T]) -> T:
        """Merge; again, if another writer was faster: the merge has to see what that one has written."""
        conflict = _deltalake().exceptions.CommitFailedError
        for wait in _WAITS:
            try:
                return act()
            except conflict:
                time.sleep(wait * (1 + random.random()))  # noqa: S311 - no secret
        return act()

    def _try_to_write(self, changes: Changes) -> bool:
        table = self._table(changes)
        _check(table, self.path, changes)
        last = table.transaction_version(changes.query)
        if last is not None and changes.batch <= last:
            return False
        if not changes.empty:
            _merge(table, changes)
        return True

    def last_batch(self, query: str) -> WrittenBatch | None:
        with _in_words(self.path):
            table = self._existing()
            number = None if table is None else table.transaction_version(query)
            if table is None or number is None:
                return None
            return WrittenBatch(number, table.transaction_version(_FINGERPRINT.format(query)))

    def forget(self, keys: pa.Table) -> int:
        with _in_words(self.path):
            return self._repeated(lambda: self._try_to_forget(keys))

    def _try_to_forget(self, keys: pa.Table) -> int:
        table = self._existing()
        if table is None:
            return 0
        columns = {one.name: plain_type(one.type) for one in pa.schema(table.schema().to_arrow())}
        keys = cast_keys(f"at {self.path}", keys, columns)
        merge = table.merge(keys, _same(keys.column_names), source_alias="new", target_alias="old")
        return int(merge.when_matched_delete().execute()["num_target_rows_deleted"])

    def _existing(self) -> "DeltaTable | None":
        table, options = _deltalake().DeltaTable, dict(self.storage_options or {})
        return table(self.path, storage_options=options) if table.is_deltatable(self.path, options) else None

    def _table(self, changes: Changes) -> "DeltaTable":
        found = self._existing()
        if found is not None:
            return found
        if not self.create:
            raise SinkError(_MISSING.format(self.path))
        schema = pa.schema([field.with_nullable(True) for field in changes.upserts.schema])
        return _deltalake().DeltaTable.create(
            self.path,
            schema,
            mode="ignore",  # another query may have been faster
            configuration={_KEYS: json.dumps(changes.keys)},
            storage_options=dict(self.storage_options or {}),
            raise_if_key_not_exists=False,
        )


def _deltalake() -> Any:
    """Return the package, which is imported when it is needed."""
    try:
        import deltalake.exceptions
    except ImportError as missing:
        raise ImportError(
            "DeltaSink needs deltalake: pip install 'spark-stateful-windows[delta]'"
        ) from missing
    return deltalake


def _check_path(path: str) -> None:
    """Refuse a URI that may have a secret: messages, logs and the sink's `repr` show the path."""
    scheme, is_uri, rest = path.partition("://")
    wrong = may_have_password(rest, scheme in _CONTAINERS, scheme in _WITHOUT_KEYS)
    if is_uri and (wrong or "?" in rest or "#" in rest):
        raise DefinitionError(
            "path has a user, a password or a query in its URI, which messages would show: remove it, and give "
            "credentials as storage_options, or where the client of the storage looks for them"
        )


@contextmanager
def _in_words(path: str) -> Iterator[None]:
    """Raise errors of the block as a SinkError that names the table; a panic of Rust's is no `Exception`."""
    try:
        yield
    except (SinkError, DefinitionError, ImportError):
        raise
    except BaseException as error:
        if isinstance(error, Exception) or type(error).__name__ == _PANIC:
            raise SinkError(f"the Delta table at {path} cannot be used: {error}") from error
        raise


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
            "without the window's columns"
        )


def _merge(table: "DeltaTable", changes: Changes) -> None:
    lake = _deltalake()
    deleted = free_name(_DELETED, changes.upserts.column_names)
    source = _source(changes, deleted)
    values = {_quote(name): f"new.{_quote(name)}" for name in changes.upserts.column_names}
    noted = [
        lake.Transaction(changes.query, changes.batch),
        lake.Transaction(_FINGERPRINT.format(changes.query), changes.fingerprint),
    ]
    merge = table.merge(
        source,
        _same(changes.keys),
        source_alias="new",
        target_alias="old",
        commit_properties=lake.CommitProperties(app_transactions=noted),
    )
    merge = merge.when_matched_delete(f"new.{deleted}").when_matched_update(values, _replaced(changes))
    merge.when_not_matched_insert(values, predicate=f"NOT new.{deleted}").execute()


def _same(keys: Sequence[str]) -> str:
    """Return the condition that a row of the table has the key of one that is merged."""
    return " AND ".join(f"(old.{_quote(k)} IS NOT DISTINCT FROM new.{_quote(k)})" for k in keys)


def _replaced(changes: Changes) -> str | None:
    """Return the condition under which a row of the table is replaced, if there is one."""
    if changes.latest_by is None:
        return None
    name = _quote(changes.latest_by)
    return not_older(f"old.{name}", f"new.{name}")


def _source(changes: Changes, deleted: str) -> pa.Table:
    """Return deletes and upserts as one table, with a column of this name that tells them apart."""
    schema = pa.schema([one.with_nullable(True) for one in changes.upserts.schema])
    deletes = changes.deletes.cast(pa.schema([schema.field(key) for key in changes.keys]))
    rows = pa.concat_tables([changes.upserts.cast(schema), deletes], promote_options="default")
    return rows.append_column(deleted, pa.array(np.arange(rows.num_rows) >= changes.upserts.num_rows))


def _quote(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def _declared(type_: pa.DataType) -> str | None:
    """Return something if Delta has the type."""
    if pat.is_nested(type_):
        inner: list[Any] = [type_.field(number).type for number in range(type_.num_fields)]
        return "nested" if all(map(_declared, inner)) else None
    return "plain" if any(is_type(type_) for is_type in _LEAVES) else None
