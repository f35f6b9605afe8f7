"""Python workers of Spark, which run one task after another."""

import gc
import sys

from operators.runtime.freed_memory import keep_freed_memory

_modules = 0
"""How many modules were loaded when objects were last set aside."""


def prepare_worker() -> None:
    """Have the process run its next tasks with less work. To be called when a task begins.

    Spark has a worker collect garbage after each task. That takes 55 ms of processor time with this library, pandas and Arrow
    loaded, most of the time of a small task, and it finds nothing. So what modules made when they were loaded is set aside:
    the collector does not look at it any more. (gc.freeze)
    """
    global _modules  # noqa: PLW0603 - the process has one collector
    keep_freed_memory()
    if len(sys.modules) != _modules:
        _modules = len(sys.modules)
        gc.freeze()
