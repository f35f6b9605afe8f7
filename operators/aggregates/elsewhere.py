"""Aggregates that this library does not have under these names: those of PySpark, and those of other libraries."""

_QUANTILES = "agg.percentile('v', 0.95), exact, or agg.approx_quantiles('v', [0.95]), an estimate whose state is bounded"
_SKETCH = "agg.approx_count_distinct, whose sketch is kept as state; sketches are no results here"
_RANKS = "agg.approx_quantiles, whose sketch is kept as state; sketches are no results here"
_NUMPY = "an AggregateOperation, a few functions on NumPy columns"
_SET = "agg.collect_set, and one of Spark's functions of arrays on its result"
_LIST = "agg.collect_list, and F.array_join on its result"
_GROUPS = "several operators, one for each set of keys: windows have no cube and no rollup"

INSTEAD = {
    # Of pyspark.sql.functions.
    **dict.fromkeys(["percentile_approx", "approx_percentile"], _QUANTILES),
    **dict.fromkeys(["countDistinct"], "agg.count_distinct"),
    **dict.fromkeys(["approxCountDistinct"], "agg.approx_count_distinct"),
    **dict.fromkeys(["sum_distinct", "sumDistinct"], "agg.collect_set, and F.aggregate on its result"),
    "count_if": "agg.count(where=condition); every aggregate takes where=",
    **dict.fromkeys(
        ["try_sum", "try_avg"],
        "agg.sum or agg.avg of a column cast to double or decimal, which do not overflow",
    ),
    **dict.fromkeys(["listagg", "string_agg"], _LIST),
    **dict.fromkeys(
        ["listagg_distinct", "string_agg_distinct"], "agg.collect_set, and F.array_join on its result"
    ),
    "collect_union": _SET,
    "mode": "agg.fold, with a dict of counts as its state",
    **dict.fromkeys(["skewness", "kurtosis", "product", "bit_and", "bit_or", "bit_xor"], _NUMPY),
    **dict.fromkeys(["bitmap_construct_agg", "bitmap_or_agg", "bitmap_and_agg"], _NUMPY),
    "count_min_sketch": "agg.top_n, or an AggregateOperation; sketches are no results here",
    "histogram_numeric": _RANKS,
    **dict.fromkeys(
        [
            f"kll_{kind}_agg_{type_}"
            for kind in ("sketch", "merge")
            for type_ in ("bigint", "double", "float")
        ],
        _RANKS,
    ),
    **dict.fromkeys(["hll_sketch_agg", "hll_union_agg"], _SKETCH),
    **dict.fromkeys([f"theta_{kind}_agg" for kind in ("sketch", "union", "intersection")], _SKETCH),
    **dict.fromkeys(
        [
            f"tuple_{kind}_agg_{type_}"
            for kind in ("sketch", "union", "intersection")
            for type_ in ("double", "integer")
        ],
        _SKETCH,
    ),
    **dict.fromkeys(["grouping", "grouping_id"], _GROUPS),
    # Of others.
    **dict.fromkeys(["quantile", "approx_quantile"], _QUANTILES),
    "average": "agg.avg",
    "stdev": "agg.stddev",
    "var": "agg.variance",
    "all": "agg.bool_and",
    "any": "agg.bool_or",
    "nunique": "agg.count_distinct",
}
"""What to use in their place."""
