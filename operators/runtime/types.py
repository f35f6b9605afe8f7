"""Spark types as Arrow types and back, for the atomic types and lists that windows read and write.

Kept here rather than taken from PySpark's internals, whose signatures change from version to version.
"""

import pyarrow as pa
import pyarrow.types as pat
from pyspark.sql import types as spark

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
_OTHER = pa.struct([])


def arrow_schema(schema: spark.StructType) -> pa.Schema:
    """Return the columns as Arrow fields; a nested or exotic type becomes a struct, which every use of it refuses."""
    return pa.schema([pa.field(field.name, arrow_type(field.dataType)) for field in schema.fields])


def arrow_type(type_: spark.DataType) -> pa.DataType:
    """Return the Arrow type of a Spark type."""
    if isinstance(type_, spark.DecimalType):
        return pa.decimal128(type_.precision, type_.scale)
    return _TO_ARROW.get(type(type_), _OTHER)


def spark_schema(schema: pa.Schema) -> spark.StructType:
    """Return Arrow fields as Spark columns."""
    return spark.StructType([_spark_field(field) for field in schema])


def _spark_field(field: pa.Field) -> spark.StructField:
    return spark.StructField(field.name, spark_type(field.type), field.nullable)


def spark_type(type_: pa.DataType) -> spark.DataType:
    """Return the Spark type of an Arrow type."""
    if pat.is_decimal(type_):
        return spark.DecimalType(type_.precision, type_.scale)
    if pat.is_list(type_):
        return spark.ArrayType(spark_type(type_.value_type))
    if pat.is_struct(type_):
        return spark.StructType([_spark_field(type_.field(i)) for i in range(type_.num_fields)])
    return _TO_SPARK[type_]
