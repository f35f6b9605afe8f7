"""Tools for tests of operators: assertions, expected rows by brute force, timelines, plots, and a pytest plugin.

from operators.testing import assert_rows, expected_rows, timeline
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from operators.testing.assertions import assert_rows
    from operators.testing.evaluator import evaluate, expected_rows, late_rows, oracle
    from operators.testing.oracles import Batch, Output, StreamClock, Window
    from operators.testing.plots import plot_windows
    from operators.testing.timelines import timeline

__all__ = [
    "Batch",
    "Output",
    "StreamClock",
    "Window",
    "assert_rows",
    "evaluate",
    "expected_rows",
    "late_rows",
    "oracle",
    "plot_windows",
    "timeline",
]
_MODULES = {
    "assertions": ("assert_rows",),
    "evaluator": ("evaluate", "expected_rows", "late_rows", "oracle"),
    "oracles": ("Batch", "Output", "StreamClock", "Window"),
    "plots": ("plot_windows",),
    "timelines": ("timeline",),
}


def __getattr__(name: str) -> Any:
    """Import a name at its first use: pytest loads the plugin, and with it this package, in every run."""
    for module, names in _MODULES.items():
        if name in names:
            return getattr(import_module(f"{__name__}.{module}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}; it has {', '.join(__all__)}")


def __dir__() -> list[str]:
    """Return the public names only, for completion."""
    return sorted(__all__)
