"""What ends a process where pyarrow tells of a column, found in a savepoint's file before pyarrow is asked."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from serializers import CorruptDataError
from state_backends.checkpoints.parquet_pages import check_footer

NULLABLE = pa.field("a", pa.int64())
REQUIRED = pa.field("a", pa.int64(), nullable=False)
TEXT = pa.field("a", pa.string())


def written(folder: Path, *fields: pa.Field) -> Path:
    """A file of three groups of rows."""
    path = folder / f"{len(list(folder.iterdir()))}.parquet"
    columns = [pa.array(["1", "2", "3"]).cast(field.type) for field in fields]
    pq.write_table(pa.table(columns, pa.schema(fields)), path, row_group_size=1)
    return path


def check(path: Path, schema: Any) -> None:
    with path.open("rb") as file:
        check_footer(file, schema)


@pytest.mark.parametrize("fields", [[NULLABLE], [REQUIRED], [TEXT], [REQUIRED, TEXT, NULLABLE]])
def test_a_footer_fits_its_own_schema(tmp_path: Path, fields: list[pa.Field]) -> None:
    """Whatever the columns are."""
    path = written(tmp_path, *fields)
    check(path, pq.ParquetFile(path).schema)


@pytest.mark.parametrize(
    ("field", "other", "why"), [(NULLABLE, REQUIRED, "counts of levels"), (TEXT, NULLABLE, "another type")]
)
def test_a_column_of_another_type_is_refused(
    tmp_path: Path, field: pa.Field, other: pa.Field, why: str
) -> None:
    """In any group of rows."""
    schema = pq.ParquetFile(written(tmp_path, REQUIRED, other)).schema
    path = written(tmp_path, REQUIRED, field)
    with pytest.raises(CorruptDataError, match=why):
        check(path, schema)
