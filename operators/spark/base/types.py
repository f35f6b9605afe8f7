"""Spark types as Arrow types and back, for input and result columns.

PySpark's own conversions are internal, and change from version to version.
"""

import re
from collections.abc import Callable, Mapping

import pyarrow as pa
import pyarrow.types as pat
from pyspark.sql import types as spark

from operators.columns.checks import NO_TIMES_OF_DAY
from operators.errors import DefinitionError
from operators.runtime.binding import Binding

_TO_ARROW: dict[type[spark.DataType], pa.DataType] = {
    spark.BooleanType: pa.bool_(),
    spark.ByteType: pa.int8(),
    spark.ShortType: pa.int16(),
    spark.IntegerType: pa.int32(),
    spark.LongType: pa.int64(),
    spark.FloatType: pa.float32(),
    spark.DoubleType: pa.float64(),
    spark.StringType: pa.string(),
    spark.CharType: pa.string(),
    spark.VarcharType: pa.string(),
    spark.BinaryType: pa.binary(),
    spark.DateType: pa.date32(),
    spark.TimestampType: pa.timestamp("us", "UTC"),
    spark.TimestampNTZType: pa.timestamp("us"),
    spark.DayTimeIntervalType: pa.duration("us"),
    **({spark.TimeType: pa.time64("us")} if hasattr(spark, "TimeType") else {}),  # since Spark 4.1
}
_TO_SPARK = {
    pa.bool_(): spark.BooleanType(),
    pa.int8(): spark.ByteType(),
    pa.int16(): spark.ShortType(),
    pa.int32(): spark.IntegerType(),
    pa.int64(): spark.LongType(),
    pa.float32(): spark.FloatType(),
    pa.float64(): spark.DoubleType(),
    pa.string(): spark.StringType(),
    pa.binary(): spark.BinaryType(),
    pa.date32(): spark.DateType(),
    pa.timestamp("us", "UTC"): spark.TimestampType(),
    pa.timestamp("us"): spark.TimestampNTZType(),
    pa.duration("us"): spark.DayTimeIntervalType(),
}
_LACKING = re.compile("struct<([^<>]*): null>")
"""How Arrow shows what `arrow_type` returns of a type that Arrow lacks."""


def arrow_schema(schema: spark.StructType) -> pa.Schema:
    """Return the columns as Arrow fields; for a type that Arrow lacks, see `arrow_type`."""
    return pa.schema([pa.field(field.name, arrow_type(field.dataType)) for field in schema.fields])


def check_collations(schema: spark.StructType, binding: Binding) -> None:
    """Refuse texts with a collation where they would be compared by their bytes: as keys, and in some aggregates.

    Args:
        schema: the frame's columns.
        binding: the operator bound to them.

    Raises:
        DefinitionError: names the column, what compares it, and the ways out.
    """
    compared = dict.fromkeys(binding.inputs.group_by, "group_by")
    for result, bound in binding.output.aggregates:
        for name in (name for operation in bound.operations for name in operation.compared):
            compared.setdefault(name, f"aggregate {result!r}")
    for field in schema.fields:
        collated = isinstance(field.dataType, spark.StringType) and "collate" in field.dataType.simpleString()
        if collated and field.name in compared:
            raise DefinitionError(
                f"{compared[field.name]}: column {field.name!r} is {field.dataType.simpleString()}, but texts are compared by "
                f"their bytes: drop the collation with F.collate({field.name!r}, 'UTF8_BINARY'), and normalize the texts, "
                "for example with F.lower"
            )


def check_lacking(schema: spark.StructType, names: Mapping[str, str]) -> None:
    """Refuse columns of types that Arrow lacks, such as variant and intervals of months, and of times of day.

    Spark has times of day, but neither groups by them nor writes them into files (UNSUPPORTED_TIME_TYPE).

    Args:
        schema: the frame's columns.
        names: the columns that are read, each with its name in the message.

    Raises:
        DefinitionError: names the column, its type, and the way out.
    """
    for field in schema.fields:
        if field.name not in names:
            continue
        type_ = arrow_type(field.dataType)
        reason = ""
        if _has_times_of_day(type_):
            reason = f"; {NO_TIMES_OF_DAY}"
        elif _is_lacking(type_):
            reason = ", which no Arrow table can hold: cast it before apply, for example to a string"
        if reason:
            shown = names[field.name]
            raise DefinitionError(f"column {shown!r} is of type {field.dataType.simpleString()}{reason}")


def in_spark_types(message: str) -> str:
    """Return a message with the names that Spark has for times of day, and for types that Arrow lacks."""
    return _LACKING.sub(r"\1", message).replace("time64[us]", "time")


def arrow_type(type_: spark.DataType) -> pa.DataType:
    """Return the Arrow type of a Spark type; if Arrow has none, a struct with a field of its name, which most uses refuse."""
    if isinstance(type_, spark.DecimalType):
        return pa.decimal128(type_.precision, type_.scale)
    if isinstance(type_, spark.ArrayType):
        return pa.list_(arrow_type(type_.elementType))
    if isinstance(type_, spark.MapType):
        return pa.map_(arrow_type(type_.keyType), arrow_type(type_.valueType))
    if isinstance(type_, spark.StructType):
        return pa.struct([pa.field(field.name, arrow_type(field.dataType)) for field in type_.fields])
    return _TO_ARROW.get(type(type_)) or pa.struct([pa.field(type_.simpleString(), pa.null())])


def reported_schema(schema: spark.StructType) -> pa.Schema:
    """Return the columns as Arrow fields, to be reported as they came.

    Raises:
        DefinitionError: a column has a type that Arrow lacks, or times of day; names it.
    """
    reported = arrow_schema(schema)
    for field, column in zip(reported, schema.fields, strict=True):
        if _is_lacking(field.type) or _has_times_of_day(field.type):
            raise DefinitionError(
                f"column {field.name!r} is of type {column.dataType.simpleString()}, which cannot be reported: "
                "cast it, or drop it with df.drop"
            )
    return reported


def _is_lacking(type_: pa.DataType) -> bool:
    """Whether a type is, or holds, one that Arrow lacks, or a struct without fields, of which it cannot make rows."""
    return _holds(
        type_, lambda part: bool(pat.is_null(part) or (pat.is_struct(part) and not part.num_fields))
    )


def _has_times_of_day(type_: pa.DataType) -> bool:
    """Whether a type is, or holds, times of day."""
    return _holds(type_, lambda part: bool(pat.is_time(part)))


def _holds(type_: pa.DataType, asked: Callable[[pa.DataType], bool]) -> bool:
    """Whether a type, or one of those in it at any depth, is what is asked for."""
    if asked(type_):
        return True
    if pat.is_map(type_):
        return _holds(type_.key_type, asked) or _holds(type_.item_type, asked)
    if pat.is_list(type_):
        return _holds(type_.value_type, asked)
    return bool(pat.is_struct(type_)) and any(_holds(field.type, asked) for field in type_)


def spark_schema(schema: pa.Schema) -> spark.StructType:
    """Return Arrow fields as Spark columns.

    Raises:
        DefinitionError: a column has a type that Spark lacks, which only a result can have; names it.
    """
    return spark.StructType([_column(field) for field in schema])


def _column(field: pa.Field) -> spark.StructField:
    try:
        return _spark_field(field)
    except KeyError as error:
        raise DefinitionError(
            f"result {field.name!r} is of type {field.type}, and Spark has no {error.args[0]} here: give its function another "
            "type, such as 'bigint' or 'string'"
        ) from None


def _spark_field(field: pa.Field) -> spark.StructField:
    return spark.StructField(field.name, spark_type(field.type), field.nullable)


def spark_type(type_: pa.DataType) -> spark.DataType:
    """Return the Spark type of an Arrow type.

    Raises:
        KeyError: Spark has none for it, or for one in it, which is the key.
    """
    if pat.is_decimal(type_):
        return spark.DecimalType(type_.precision, type_.scale)
    if pat.is_map(type_):
        return spark.MapType(spark_type(type_.key_type), spark_type(type_.item_type))
    if pat.is_list(type_):
        return spark.ArrayType(spark_type(type_.value_type))
    if pat.is_struct(type_):
        return spark.StructType([_spark_field(type_.field(i)) for i in range(type_.num_fields)])
    return _TO_SPARK[type_]
