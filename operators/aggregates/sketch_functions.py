"""Functions that make sketches for Spark and others that use Apache DataSketches, and merge columns of such sketches."""

from typing import TYPE_CHECKING

from operators.aggregates.definitions import Aggregate
from operators.aggregates.merged_sketches import HllUnion, KllMerge
from operators.aggregates.quantile_sketches import KllSketch
from operators.aggregates.sketches import HllSketch
from operators.columns.expressions import named

if TYPE_CHECKING:
    from pyspark.sql import Column


def hll_sketch_agg(
    column: "str | Column", lg_config_k: int = 12, *, where: "str | Column | None" = None
) -> Aggregate:
    """The distinct values as a sketch: binary, never null, for Spark's `hll_sketch_estimate`, `hll_union` and `hll_union_agg`.

    The bytes are an HLL_8 sketch of Apache DataSketches, which others merge with theirs. They depend on the set of values
    only, so that they are the same in batch, on a stream and as of a label; those of Spark's function also depend on the order
    of the records. Nulls, empty texts and empty bytes do not count, as in Spark. State up to 2**lg_config_k bytes.

    Args:
        column: a column of integers, text or binary.
        lg_config_k: log2 of the number of registers, 4 to 21; the error of an estimate is about 1.04 / sqrt(2**lg_config_k).
        where: boolean: records where it is not true do not count.

    Raises:
        DefinitionError: `lg_config_k` is out of range.
    """
    return HllSketch(named(column), log_size=lg_config_k, where=named(where))


def kll_sketch_agg_double(
    column: "str | Column", k: int = 200, *, where: "str | Column | None" = None
) -> Aggregate:
    """A sample of the values as a sketch: binary, never null, for Spark's `kll_sketch_get_quantile_double` and its like.

    The bytes are a KLL sketch of doubles of Apache DataSketches. Up to k values they depend on the values only. Beyond that
    they also depend on how batches and panes divide the values, within the error of `approx_quantiles`, whose state it
    shares: a sketch that is merged in another order has another sample. Nulls and NaN do not count.

    Args:
        column: a column of numbers other than decimals.
        k: size of the sketch, 8 to 65535.
        where: boolean: records where it is not true do not count.

    Raises:
        DefinitionError: `k` is out of range.
    """
    return KllSketch(named(column), size=k, item="double", where=named(where))


def kll_sketch_agg_float(
    column: "str | Column", k: int = 200, *, where: "str | Column | None" = None
) -> Aggregate:
    """As `kll_sketch_agg_double`, with values rounded to floats, for Spark's `kll_sketch_get_quantile_float` and its like.

    Args:
        column: a column of numbers other than decimals.
        k: size of the sketch, 8 to 65535.
        where: boolean: records where it is not true do not count.

    Raises:
        DefinitionError: `k` is out of range.
    """
    return KllSketch(named(column), size=k, item="float", where=named(where))


def kll_sketch_agg_bigint(
    column: "str | Column", k: int = 200, *, where: "str | Column | None" = None
) -> Aggregate:
    """As `kll_sketch_agg_double`, of whole numbers of 64 bits, for Spark's `kll_sketch_get_quantile_bigint` and its like.

    Args:
        column: a column of integers.
        k: size of the sketch, 8 to 65535.
        where: boolean: records where it is not true do not count.

    Raises:
        DefinitionError: `k` is out of range.
    """
    return KllSketch(named(column), size=k, item="bigint", where=named(where))


def hll_union_agg(
    column: "str | Column", lg_config_k: int = 12, *, where: "str | Column | None" = None
) -> Aggregate:
    """The union of a column of sketches, as a sketch: binary, never null; those of `hll_sketch_agg`, here or in Spark.

    Sketches with more registers than 2**lg_config_k are reduced to as many, without loss against a sketch that had them from
    the beginning. Spark's function has another second argument, and takes the number of registers from the first sketch. A
    value that is not an HLL_8 sketch of Apache DataSketches, or has fewer registers, ends the query with an error. Nulls do
    not count. State up to 2**lg_config_k bytes.

    Args:
        column: a column of binary.
        lg_config_k: log2 of the number of registers, 4 to 21.
        where: boolean: records where it is not true do not count.

    Raises:
        DefinitionError: `lg_config_k` is out of range.
    """
    return HllUnion(named(column), log_size=lg_config_k, where=named(where))


def kll_merge_agg_double(
    column: "str | Column", k: int = 200, *, where: "str | Column | None" = None
) -> Aggregate:
    """The union of a column of sketches of doubles, as a sketch: binary, never null.

    The sketches are those of `kll_sketch_agg_double`, here or in Spark. The error is that of `k`, or of the smallest k of
    the sketches. A value that is not a KLL sketch of Apache DataSketches ends the query with an error; one with values of
    another type need not. Nulls do not count.

    Args:
        column: a column of binary.
        k: size of the sketch, 8 to 65535. Spark's function takes that of the first sketch by default.
        where: boolean: records where it is not true do not count.

    Raises:
        DefinitionError: `k` is out of range.
    """
    return KllMerge(named(column), size=k, item="double", where=named(where))


def kll_merge_agg_float(
    column: "str | Column", k: int = 200, *, where: "str | Column | None" = None
) -> Aggregate:
    """As `kll_merge_agg_double`, of sketches of floats: those of `kll_sketch_agg_float`, here or in Spark.

    Args:
        column: a column of binary.
        k: size of the sketch, 8 to 65535. Spark's function takes that of the first sketch by default.
        where: boolean: records where it is not true do not count.

    Raises:
        DefinitionError: `k` is out of range.
    """
    return KllMerge(named(column), size=k, item="float", where=named(where))


def kll_merge_agg_bigint(
    column: "str | Column", k: int = 200, *, where: "str | Column | None" = None
) -> Aggregate:
    """As `kll_merge_agg_double`, of sketches of whole numbers: those of `kll_sketch_agg_bigint`, here or in Spark.

    Args:
        column: a column of binary.
        k: size of the sketch, 8 to 65535. Spark's function takes that of the first sketch by default.
        where: boolean: records where it is not true do not count.

    Raises:
        DefinitionError: `k` is out of range.
    """
    return KllMerge(named(column), size=k, item="bigint", where=named(where))
