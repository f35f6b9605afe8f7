"""Aggregates that this library does not have under these names: those of PySpark, and those of other libraries."""

_QUANTILES = "agg.percentile('v', 0.95), exact, or agg.approx_quantiles('v', [0.95]), an estimate whose state is bounded"
_SKETCH = "agg.hll_sketch_agg, whose sketches Spark merges, or agg.approx_count_distinct"
_RANKS = "agg.kll_sketch_agg_double, whose sketches Spark merges, or agg.approx_quantiles"
_NUMPY = "an AggregateOperation, a few functions on NumPy columns"
_GROUPS = "several operators, one for each set of keys: windows have no cube and no rollup"

INSTEAD = {
    # Of pyspark.sql.functions.
    **dict.fromkeys(["percentile_approx", "approx_percentile"], _QUANTILES),
    **dict.fromkeys(["countDistinct"], "agg.count_distinct"),
    **dict.fromkeys(["approxCountDistinct"], "agg.approx_count_distinct"),
    "sumDistinct": "agg.sum_distinct",
    **dict.fromkeys(["bitmap_construct_agg", "bitmap_or_agg", "bitmap_and_agg"], _NUMPY),
    "count_min_sketch": "agg.approx_top_k, or agg.histogram; sketches are no results here",
    **dict.fromkeys(
        ["approx_top_k_accumulate", "approx_top_k_combine"], "agg.approx_top_k, whose sketch is kept as state"
    ),
    "measure": "agg.sum and the other aggregates themselves: there are no metric views here",
    "histogram_numeric": _RANKS,
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
    "hll_sketch": "agg.hll_sketch_agg",
    **dict.fromkeys(["quantile", "approx_quantile"], _QUANTILES),
    "average": "agg.avg",
    "stdev": "agg.stddev",
    "var": "agg.variance",
    "all": "agg.bool_and",
    "any": "agg.bool_or",
    "nunique": "agg.count_distinct",
    **dict.fromkeys(
        ["exponentialTimeDecayedSum", "ewma_sum"],
        "agg.decayed_sum, whose half-life is ClickHouse's parameter times ln 2",
    ),
    "exponentialTimeDecayedCount": "agg.decayed_count, whose half-life is ClickHouse's parameter times ln 2",
    **dict.fromkeys(
        ["exponentialTimeDecayedAvg", "ewma"],
        "agg.decayed_avg, whose half-life is ClickHouse's parameter times ln 2",
    ),
    **dict.fromkeys(["group_concat", "array_join"], "agg.listagg"),
    **dict.fromkeys(["topK", "approx_most_frequent", "top_k"], "agg.approx_top_k, or agg.histogram"),
    **dict.fromkeys(["groupArray", "array_concat_agg"], "agg.collect_list"),
    **dict.fromkeys(
        ["sumIf", "countIf", "avgIf"], "agg.sum, agg.count_if or agg.avg; every aggregate takes where="
    ),
    **dict.fromkeys(["quantileExact", "quantiles"], _QUANTILES),
    **dict.fromkeys(["argMin", "arg_min"], "agg.min_by"),
    **dict.fromkeys(["argMax", "arg_max"], "agg.max_by"),
    **dict.fromkeys(["uniq", "uniqExact", "ndv"], "agg.count_distinct, or agg.approx_count_distinct"),
}
"""What to use in their place."""
