"""Window operators for PySpark with pluggable state.

from operators import SlidingWindows, aggregates as agg

Each name is imported when it is first used: the package itself costs nothing where only a part of it is wanted.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from operators import aggregates
    from operators.aggregates import AggregateOperation
    from operators.custom.contract import Declaration, Operator, Rows, Stored, Work
    from operators.definitions.aggregation import WindowedAggregation
    from operators.definitions.keyed import Keyed, KeyedOperator
    from operators.definitions.windows import HoppingWindows, SessionWindows, SlidingWindows, TumblingWindows
    from operators.errors import DefinitionError, OperatorError, SessionSetupError, WorkerError
    from operators.spark.failures import what_failed
    from operators.spark.progress import print_batches
    from operators.spark.session import session_conf, spark_session
    from operators.steps.timers import NEVER

_HOMES = {
    "operators.aggregates": ("AggregateOperation",),
    "operators.steps.timers": ("NEVER",),
    "operators.custom.contract": ("Declaration", "Operator", "Rows", "Stored", "Work"),
    "operators.definitions.keyed": ("Keyed", "KeyedOperator"),
    "operators.definitions.windows": (
        "HoppingWindows",
        "SessionWindows",
        "SlidingWindows",
        "TumblingWindows",
    ),
    "operators.errors": ("DefinitionError", "OperatorError", "SessionSetupError", "WorkerError"),
    "operators.spark.failures": ("what_failed",),
    "operators.spark.progress": ("print_batches",),
    "operators.spark.session": ("session_conf", "spark_session"),
    "operators.definitions.aggregation": ("WindowedAggregation",),
}
_HOME = {name: module for module, names in _HOMES.items() for name in names}

__all__ = [
    "NEVER",
    "AggregateOperation",
    "Declaration",
    "DefinitionError",
    "HoppingWindows",
    "Keyed",
    "KeyedOperator",
    "Operator",
    "OperatorError",
    "Rows",
    "SessionSetupError",
    "SessionWindows",
    "SlidingWindows",
    "Stored",
    "TumblingWindows",
    "WindowedAggregation",
    "Work",
    "WorkerError",
    "aggregates",
    "print_batches",
    "session_conf",
    "spark_session",
    "what_failed",
]


def __getattr__(name: str) -> Any:
    if name == "aggregates":
        return import_module("operators.aggregates")
    if name not in _HOME:
        raise AttributeError(f"module 'operators' has no attribute {name!r}; it has {', '.join(__all__)}")
    return getattr(import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
