"""How far Spark has come with a command, on stderr."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event, Thread
from typing import TYPE_CHECKING

from operators.command.text.formats import printable

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

_SECONDS = 0.5


@contextmanager
def watched(spark: "SparkSession", label: str, *, always: bool) -> Iterator[None]:
    """Print how many of Spark's tasks are done while the block runs.

    A task reads the state of a bucket. On a terminal, one line changes; otherwise each change is a line.

    Args:
        spark: the session.
        label: what is done.
        always: whether to print if stderr is not a terminal.
    """
    if not (always or sys.stderr.isatty()):
        yield
        return
    ended = Event()
    watcher = Thread(target=_watch, args=(spark.sparkContext, label, ended), daemon=True)
    watcher.start()
    try:
        yield
    finally:
        ended.set()
        watcher.join()


def _watch(context: "SparkContext", label: str, ended: Event) -> None:
    line, terminal = _Line(), sys.stderr.isatty()
    while not ended.wait(_SECONDS):
        done, every = _tasks(context)
        if every:
            line.show(f"{label}: {done} of {every} tasks", terminal=terminal)
    line.clear(terminal=terminal)


def _tasks(context: "SparkContext") -> tuple[int, int]:
    """Tasks that are done, and all, of the stages that run."""
    tracker = context.statusTracker()
    stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
    found = [(stage.numCompletedTasks, stage.numTasks) for stage in stages if stage is not None]
    return sum(done for done, _ in found), sum(every for _, every in found)


class _Line:
    """What was printed last."""

    def __init__(self) -> None:
        self._last = ""

    def show(self, text: str, *, terminal: bool) -> None:
        """Print a text in place of the last one, if it is another."""
        text = printable(text)
        if text != self._last:
            sys.stderr.write(f"\r{text.ljust(len(self._last))}" if terminal else f"{text}\n")
            sys.stderr.flush()
            self._last = text

    def clear(self, *, terminal: bool) -> None:
        """Leave the line of a terminal empty."""
        if self._last and terminal:
            sys.stderr.write(f"\r{' ' * len(self._last)}\r")
            sys.stderr.flush()
