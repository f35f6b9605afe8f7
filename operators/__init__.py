"""Window operators for PySpark with pluggable state.

from operators import SlidingWindows, aggregates as agg

Each name is imported when it is first used: `import operators` alone loads nothing else. It looks for the two packages that it
needs, since their names are common ones.
"""

import sys
from importlib import import_module
from importlib.machinery import PathFinder
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from operators import aggregates
    from operators.aggregates import AggregateOperation
    from operators.columns.records import NEVER
    from operators.custom.contract import CallContext, Declaration, OutputRows, StoredEntries
    from operators.custom.key_context import KeyContext
    from operators.definitions.aggregation import CoGroupedAggregation, WindowedAggregation
    from operators.definitions.custom import Operator
    from operators.definitions.keyed import KeyedOperator
    from operators.definitions.rolling import RollingAggregation, RollingWindows
    from operators.definitions.windows import HoppingWindows, SessionWindows, SlidingWindows, TumblingWindows
    from operators.errors import DefinitionError, OperatorError, SessionSetupError, WorkerError
    from operators.explain.explanation import Explanation
    from operators.runtime.forget_requests import RequestStatus, forget, forget_requests
    from operators.runtime.local import LocalRunner
    from operators.runtime.local_as_of import AsOfRunner
    from operators.runtime.local_cogroup import CoGroupedRunner
    from operators.spark.base.failures import what_failed
    from operators.spark.base.java import JavaNotFoundError, ensure_java
    from operators.spark.base.listener import print_batches, report_batches
    from operators.spark.base.packages import check_executors
    from operators.spark.base.session import session_conf, spark_session
    from operators.spark.state.read_windows import read_windows
    from operators.spark.with_late import WithLate
    from operators.steps.step import Counters
    from operators.testing.plots import plot_windows

_HOMES = {
    "operators.aggregates": ("AggregateOperation",),
    "operators.custom.contract": (
        "Declaration",
        "OutputRows",
        "StoredEntries",
        "CallContext",
    ),
    "operators.custom.key_context": ("KeyContext",),
    "operators.definitions.aggregation": (
        "CoGroupedAggregation",
        "WindowedAggregation",
    ),
    "operators.definitions.custom": ("Operator",),
    "operators.definitions.keyed": ("KeyedOperator",),
    "operators.definitions.rolling": (
        "RollingAggregation",
        "RollingWindows",
    ),
    "operators.definitions.windows": (
        "HoppingWindows",
        "SessionWindows",
        "SlidingWindows",
        "TumblingWindows",
    ),
    "operators.errors": (
        "DefinitionError",
        "OperatorError",
        "SessionSetupError",
        "WorkerError",
    ),
    "operators.explain.explanation": ("Explanation",),
    "operators.runtime.forget_requests": (
        "RequestStatus",
        "forget",
        "forget_requests",
    ),
    "operators.runtime.local": ("LocalRunner",),
    "operators.runtime.local_as_of": ("AsOfRunner",),
    "operators.runtime.local_cogroup": ("CoGroupedRunner",),
    "operators.spark.base.failures": ("what_failed",),
    "operators.spark.base.java": (
        "JavaNotFoundError",
        "ensure_java",
    ),
    "operators.spark.base.listener": (
        "print_batches",
        "report_batches",
    ),
    "operators.spark.state.read_windows": ("read_windows",),
    "operators.spark.base.packages": ("check_executors",),
    "operators.spark.base.session": (
        "session_conf",
        "spark_session",
    ),
    "operators.spark.with_late": ("WithLate",),
    "operators.steps.step": ("Counters",),
    "operators.steps.timers": ("NEVER",),
    "operators.testing.plots": ("plot_windows",),
}
_HOME = {name: module for module, names in _HOMES.items() for name in names}

__all__ = [
    "NEVER",
    "AggregateOperation",
    "AsOfRunner",
    "CallContext",
    "CoGroupedAggregation",
    "CoGroupedRunner",
    "Counters",
    "Declaration",
    "DefinitionError",
    "Explanation",
    "HoppingWindows",
    "JavaNotFoundError",
    "KeyContext",
    "KeyedOperator",
    "LocalRunner",
    "Operator",
    "OperatorError",
    "OutputRows",
    "RequestStatus",
    "RollingAggregation",
    "RollingWindows",
    "SessionSetupError",
    "SessionWindows",
    "SlidingWindows",
    "StoredEntries",
    "TumblingWindows",
    "WindowedAggregation",
    "WithLate",
    "WorkerError",
    "aggregates",
    "check_executors",
    "ensure_java",
    "forget",
    "forget_requests",
    "plot_windows",
    "print_batches",
    "read_windows",
    "report_batches",
    "session_conf",
    "spark_session",
    "what_failed",
]


def _hidden(package: str, module: str) -> str | None:
    """Return what is wrong if another project's module stands in the place of a package of this library.

    As in `state_backends`: neither can import this from the other before it is known which one that is.

    Args:
        package: a package of this library.
        module: one in it, by which a copy of it in another folder is known.
    """
    loaded = sys.modules.get(package)
    spec = find_spec(package) if loaded is None else getattr(loaded, "__spec__", None)
    places = list(getattr(spec, "submodule_search_locations", None) or ())
    ours = __path__[0].removesuffix(__name__) + package
    if spec is None or spec.origin is None or ours in places:
        return None
    if places and PathFinder.find_spec(f"{package}.{module}", places):
        return None
    return (
        f"another module named {package!r} hides the one of this library: {spec.origin} is found before {ours}. "
        "Rename it, or move it into a package; or run from another folder: `python -P` and PYTHONSAFEPATH=1 leave out the "
        "folder of the script, from Python 3.11 on; or change the order of sys.path. "
        "The documentation has more: Errors, Names that collide"
    )


for _name, _module in (("state_backends", "sqlite_journal"), ("serializers", "row_parts")):
    if _problem := _hidden(_name, _module):
        raise ImportError(_problem, name=_name)


def __getattr__(name: str) -> Any:
    if name == "aggregates":
        return import_module("operators.aggregates")
    if name not in _HOME:
        raise AttributeError(f"module 'operators' has no attribute {name!r}; it has {', '.join(__all__)}")
    return getattr(import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
