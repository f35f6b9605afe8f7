"""The input of an operator on a bounded frame: its rows, or what a first stage makes of them, in order of key and time."""

from dataclasses import dataclass

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name that every Spark user knows
from pyspark.sql.types import LongType, StructField, StructType

from operators.runtime.binding import Binding
from operators.spark.base.inside import known_columns
from operators.spark.batch.bounded import FirstStage, FirstStageRows, InputRows, Slicing, Source
from operators.spark.batch.first_stage import PANE, EngineStage
from operators.spark.batch.sorting import ORDER, in_order
from operators.spark.inputs.chains import is_shuffled
from operators.spark.inputs.pipeline_schema import without_analysis
from operators.spark.inputs.watermarks import utc, zoned_column
from operators.steps.partials import KEY, TIME

SLICING = Slicing()
"""How bounded frames are cut into steps. No result depends on it."""


@dataclass(frozen=True, slots=True)
class SortedInput:
    """A bounded frame in order of key and time.

    Attributes:
        df: the rows.
        source: how they are read.
        step: the least number of rows of a step.
    """

    df: DataFrame
    source: Source
    step: int


def input_columns(df: DataFrame, binding: Binding, *, streaming: bool) -> DataFrame:
    """Return the columns that a binding reads, under its aliases: Spark's mapInArrow fails on a column name with a dot."""
    return df.select(
        *[
            zoned_column(df, name, streaming=streaming).alias(alias)
            for name, alias in binding.inputs.aliases.items()
        ]
    )


def sort_input(df: DataFrame, binding: Binding, name: str) -> SortedInput:
    """Return the input of a binding in order.

    Args:
        df: the columns that `input_columns` returns, of a bounded frame.
        binding: what reads them.
        name: the name of the operator, in errors.
    """
    source: Source
    keys = [binding.inputs.aliases[name] for name in binding.inputs.group_by]
    columns = known_columns(df)
    # Spark alone knows the columns that its own first stage makes.
    stage = EngineStage.of(binding, df) if binding.late is None and columns is None else None
    if stage is not None:
        df, micros, source = stage.group(df), F.col(PANE), stage
    elif (plan := binding.plan.first_stage) is not None and plan.condenses and binding.late is None:
        first = FirstStage(binding, name, SLICING.rows)
        if columns is not None or is_shuffled(df):
            df = _by_content(df, columns or df.schema, binding)
        df, keys, source = df.mapInArrow(first, first.types), [KEY], FirstStageRows(binding)
        columns = columns and first.types
        micros = _micros(binding.tick_us)
    else:
        time = binding.inputs.aliases[binding.inputs.event_time]
        micros, source = F.unix_micros(utc(df, time)), InputRows(binding)
    ordered = in_order(df, keys, micros, SLICING.group_bits)
    if columns is not None:
        ordered = without_analysis(ordered, StructType([*columns, StructField(ORDER, LongType())]))
    return SortedInput(ordered, source, SLICING.rows)


def _by_content(df: DataFrame, columns: StructType, binding: Binding) -> DataFrame:
    """Sort the rows of each task by time and by what they hold: a task that runs again gets them in any other order."""
    time = binding.inputs.aliases[binding.inputs.event_time]
    return df.sortWithinPartitions(F.col(time), F.xxhash64(*map(_hashable, columns.fields)))


def _hashable(field: StructField) -> Column:
    """A column as Spark can hash it, which it refuses for maps."""
    column = F.col(field.name)
    return F.to_json(F.struct(column)) if "map<" in field.dataType.simpleString() else column


def _micros(tick_us: int) -> Column:
    """The times of entries in microseconds, as far as these can express them."""
    most = (2**63 - 1) // tick_us
    return F.least(F.greatest(F.col(TIME), F.lit(-most)), F.lit(most)) * F.lit(tick_us)
