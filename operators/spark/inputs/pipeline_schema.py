"""Frames whose columns the user gives: in a query function of a declarative pipeline Spark analyses nothing.

A frame of Spark Connect asks the server for its columns, unless it knows them: `DataFrame.to` keeps the schema that it is
given. `without_analysis` does so, too, but without a node in the plan: the server analyses the input of `to` at once, when the
tables of the pipeline do not exist yet. Columns are cast to the types that were given instead.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name that every Spark user knows
from pyspark.sql.types import StructField, StructType, TimestampNTZType, TimestampType

from operators.errors import DefinitionError
from operators.runtime.binding import Binding
from operators.spark.base.inside import NO_ANALYSIS, has_condition, knows, sets_watermark
from operators.spark.base.quoting import quote


@contextmanager
def no_analysis_needed() -> Iterator[None]:
    """Raise a DefinitionError with the way out where Spark refuses to analyse a frame."""
    try:
        yield
    except AnalysisException as error:
        if not has_condition(error, NO_ANALYSIS):
            raise
        raise DefinitionError(
            "in a query function of a declarative pipeline Spark does not analyse frames: give its columns, and whether it is "
            "a stream, as in apply(..., schema=SCHEMA, streaming=True), where SCHEMA is a StructType made outside of the "
            "function. Expressions must be columns of the frame then, and an operator takes one frame: for several, run it in "
            "an ordinary query over the pipeline's tables"
        ) from error


def check_schema(df: DataFrame, schema: object, streaming: bool | None) -> None:
    """Refuse a schema that Spark would have to parse, one of the two arguments without the other, and chains.

    Raises:
        DefinitionError: says what to do.
    """
    if not isinstance(schema, StructType | None):
        raise DefinitionError(
            f"schema is {schema!r}: give a StructType, such as StructType.fromDDL('k string, at timestamp'), made outside of "
            "the query function of a pipeline"
        )
    if (schema is None) != (streaming is None):
        raise DefinitionError(
            "schema and streaming belong together: give both, or none, and Spark finds them out"
        )
    if schema is not None and sets_watermark(df):
        raise DefinitionError(
            "the frame has a watermark, from withWatermark or from another operator: leave withWatermark out, since apply sets "
            "it from grace; and write the rows of the other operator to a table, to run this one in an ordinary query"
        )


def with_given_columns(df: DataFrame, schema: StructType | None) -> DataFrame:
    """Return the frame; if its columns are given, one of these columns and types, which it knows."""
    if schema is None:
        return df
    return without_analysis(
        df.select(*[F.col(quote(f.name)).cast(f.dataType).alias(f.name) for f in schema]), schema
    )


def without_analysis(df: DataFrame, columns: StructType | None) -> DataFrame:
    """Return a frame that has just been made; if its columns are given, it needs no analysis to know them."""
    if columns is not None:
        knows(df, columns)
    return df


def input_types(binding: Binding, schema: StructType, *, streaming: bool) -> StructType:
    """Return the columns that a binding reads, by their numbered names, as `zoned_column` makes them."""

    def field(name: str, alias: str) -> StructField:
        type_ = schema[name].dataType
        zoned = streaming and isinstance(type_, TimestampNTZType)
        return StructField(alias, TimestampType() if zoned else type_)

    return StructType([field(name, alias) for name, alias in binding.inputs.aliases.items()])
