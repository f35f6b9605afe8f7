"""The messages for methods that are called where they are not: on windows alone, or on another kind of windows."""

from collections.abc import Collection
from typing import TYPE_CHECKING, Any

OF_OPERATORS = (
    *(
        "apply",
        "apply_with_late",
        "check",
        "emit",
        "explain",
        "local_runner",
        "publish",
        "reader",
        "savepoint",
        "with_since",
    ),
)
"""Methods of the operators that all windows become."""
_AS_OF = (
    "labels get the aggregates of the records before them from RollingWindows alone: "
    "RollingWindows({'1h': '1 hour'}).group_by('k').aggregate(n=agg.count())."
)
_ELSEWHERE = {
    "apply_as_of": f"{_AS_OF}apply_as_of(labels, records, label_time='at', event_time='at')",
    "local_runner_as_of": f"{_AS_OF}local_runner_as_of(label_time='at', event_time='at')",
    "cogroup": (
        "several frames share sliding, hopping, tumbling or session windows, as in "
        "TumblingWindows('1 hour').group_by('k').cogroup(clicks={'n': agg.count()}, orders={'m': agg.count()}); "
        "for labels beside records, RollingWindows have apply_as_of"
    ),
}
"""Methods that only some windows and operators have, and what to write."""
_AGGREGATE = ".aggregate(n=agg.count(), mean=agg.avg('v')), with the name of each result"
_CUSTOM = "a custom operator, a class of KeyedOperator or Operator"
_OF_SPARK = {
    **dict.fromkeys(["groupBy", "groupby", "partitionBy", "keyBy"], ".group_by('k')"),
    "agg": _AGGREGATE,
    **dict.fromkeys(["count", "sum", "avg", "mean", "min", "max"], _AGGREGATE),
    "orderBy": "the event time that apply takes, as in .apply(df, event_time='at'): it is the order of the records",
    **dict.fromkeys(
        ["rangeBetween", "over"], "RollingWindows({'1h': '1 hour'}), for aggregates beside each record"
    ),
    "rowsBetween": f"{_CUSTOM}: windows here are of time, not of a number of rows",
    "withWatermark": "grace=, as in TumblingWindows('1 hour', grace='10 minutes'): apply sets the watermark",
    **dict.fromkeys(["cube", "rollup", "pivot"], "several operators, one for each set of keys"),
    **dict.fromkeys(
        [
            "applyInPandas",
            "applyInArrow",
            "applyInPandasWithState",
            "transformWithState",
            "transformWithStateInPandas",
        ],
        _CUSTOM,
    ),
    "outputMode": ".emit('on_close') for rows that are final, .emit('on_update') for each change",
    **dict.fromkeys(
        ["writeStream", "write", "show", "collect"], "the DataFrame that .apply(df, event_time='at') returns"
    ),
}
"""Methods of PySpark's frames, groups and window specifications, and what to write."""


class OfSomeKinds:
    """A class of windows or operators that lacks methods of others."""

    __slots__ = ()

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            raise unknown_attribute(self, name, ())


def unknown_attribute(windows: object, name: str, of_operators: Collection[str]) -> AttributeError:
    """Return the error for an attribute that windows, or operators, lack; it says what has it, if that is known.

    Args:
        windows: the window definition, or the operator.
        name: the name of the attribute.
        of_operators: names of the methods of the operator that windows become.
    """
    kind = type(windows).__name__
    said = f"{kind!r} object has no attribute {name!r}"
    if name in of_operators:
        said = (
            f"{kind} define windows only: say what to compute before {name!r}, as in "
            f".group_by('k').aggregate(n=agg.count()).{name}(...)"
        )
    elif name in _ELSEWHERE:
        said = f"{said}: {_ELSEWHERE[name]}"
    elif name in _OF_SPARK:
        said = f"{said}: use {_OF_SPARK[name]}"
    return AttributeError(said, name=name, obj=windows)
