"""Aggregates by name: `from operators import aggregates as agg`, then `agg.count()`, `agg.avg("delay")` and so on.

Each takes input columns: names or, on Spark, expressions such as `F.col("v") * 2`. With `where="valid"`, a boolean column or
expression, only records where it is true count. Result types are as in Spark's function of the same name. Each pane has a
state, whose size is given in bytes; aggregates that need the same state share it. A column of a type that an aggregate does not
support is an error when the operator is applied.
"""

from typing import TYPE_CHECKING, Any

from operators.aggregates.definitions import Aggregate
from operators.aggregates.fold import fold
from operators.aggregates.number_functions import (
    avg,
    bit_and,
    bit_or,
    bit_xor,
    bool_and,
    bool_or,
    count,
    count_if,
    decayed_avg,
    decayed_count,
    decayed_sum,
    kurtosis,
    max,
    min,
    product,
    skewness,
    stddev,
    stddev_pop,
    sum,
    sum_distinct,
    try_avg,
    try_sum,
    var_pop,
    variance,
)
from operators.aggregates.pair_functions import (
    corr,
    covar_pop,
    covar_samp,
    linear_trend,
    regr_avgx,
    regr_avgy,
    regr_count,
    regr_intercept,
    regr_r2,
    regr_slope,
    regr_sxx,
    regr_sxy,
    regr_syy,
)
from operators.aggregates.record_functions import (
    bottom_n,
    first,
    first_n,
    last,
    last_n,
    max_by,
    min_by,
    top_n,
)
from operators.aggregates.sketch_functions import (
    hll_sketch_agg,
    hll_union_agg,
    kll_merge_agg_bigint,
    kll_merge_agg_double,
    kll_merge_agg_float,
    kll_sketch_agg_bigint,
    kll_sketch_agg_double,
    kll_sketch_agg_float,
)
from operators.aggregates.user_functions import AggregateError
from operators.aggregates.user_operation import AggregateOperation
from operators.aggregates.value_functions import (
    approx_count_distinct,
    approx_quantiles,
    approx_top_k,
    collect_list,
    collect_set,
    collect_union,
    count_distinct,
    histogram,
    listagg,
    listagg_distinct,
    median,
    mode,
    percentile,
    percentile_disc,
)
from operators.columns.checks import list_names

__all__ = [
    "Aggregate",
    "AggregateError",
    "AggregateOperation",
    "any_value",
    "approx_count_distinct",
    "approx_quantiles",
    "approx_top_k",
    "array_agg",
    "avg",
    "bit_and",
    "bit_or",
    "bit_xor",
    "bool_and",
    "bool_or",
    "bottom_n",
    "collect_list",
    "collect_set",
    "collect_union",
    "corr",
    "count",
    "count_distinct",
    "count_if",
    "covar_pop",
    "covar_samp",
    "decayed_avg",
    "decayed_count",
    "decayed_sum",
    "every",
    "first",
    "first_n",
    "first_value",
    "fold",
    "histogram",
    "hll_sketch_agg",
    "hll_union_agg",
    "kll_merge_agg_bigint",
    "kll_merge_agg_double",
    "kll_merge_agg_float",
    "kll_sketch_agg_bigint",
    "kll_sketch_agg_double",
    "kll_sketch_agg_float",
    "kurtosis",
    "last",
    "last_n",
    "last_value",
    "linear_trend",
    "listagg",
    "listagg_distinct",
    "max",
    "max_by",
    "mean",
    "median",
    "min",
    "min_by",
    "mode",
    "percentile",
    "percentile_cont",
    "percentile_disc",
    "product",
    "regr_avgx",
    "regr_avgy",
    "regr_count",
    "regr_intercept",
    "regr_r2",
    "regr_slope",
    "regr_sxx",
    "regr_sxy",
    "regr_syy",
    "skewness",
    "some",
    "std",
    "stddev",
    "stddev_pop",
    "stddev_samp",
    "string_agg",
    "string_agg_distinct",
    "sum",
    "sum_distinct",
    "top_n",
    "try_avg",
    "try_sum",
    "var_pop",
    "var_samp",
    "variance",
]

# Spark's other names.
mean = avg
std = stddev_samp = stddev
var_samp = variance
every = bool_and
some = bool_or
any_value = first_value = first
last_value = last
array_agg = collect_list
string_agg = listagg
string_agg_distinct = listagg_distinct
percentile_cont = percentile

if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        from operators.aggregates.elsewhere import INSTEAD

        said = f"module 'operators.aggregates' has no attribute {name!r}"
        known = INSTEAD.get(name)
        raise AttributeError(
            f"{said}; it has {list_names(name, __all__)}" if known is None else f"{said}: use {known}"
        )


def __dir__() -> list[str]:
    """Return the public names only, for completion: no submodules and no imported names."""
    return sorted(__all__)
