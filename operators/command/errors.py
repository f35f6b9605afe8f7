"""The error of a command that cannot be done as it was given, and errors as one line."""

import re

from operators.spark.base.failures import what_failed, without_traces

_RAISED = re.compile(
    r"^(?:[A-Za-z_]\w*\.)*(?P<kind>[A-Z]\w*(?:Error|Exception)): (?P<message>.*)$", re.MULTILINE
)
_CAUSE = re.compile(r"^(?:\t| )*Caused by: (?:[\w$]+\.)*(?P<message>[\w$]+(?:: .*)?)$", re.MULTILINE)
_OURS = ("operators", "serializers", "state_backends")
_OF_WORKERS = "Traceback (most recent call last)"


class CommandError(RuntimeError):
    """A command that cannot be done as it was given; the message says the way out."""


def one_line(error: BaseException) -> str:
    """Return an error as one line: of Spark's, which have the traces of workers, what was raised there."""
    text = what_failed(error) or _of_worker(str(error)) or _of_java(str(error)) or _named(error)
    return " ".join(text.split())


def _of_worker(text: str) -> str | None:
    """The message of the last error in a worker's traceback, or None if there is no traceback."""
    _, found, after = text.rpartition(_OF_WORKERS)
    raised = [*_RAISED.finditer(after)] if found else []
    if not raised:
        return None
    return without_traces(after[raised[-1].start("message") :])


def _of_java(text: str) -> str | None:
    """The innermost cause that a trace of Java names, or None if there is no such trace."""
    causes = [*_CAUSE.finditer(text)]
    return f"Spark failed: {causes[-1]['message']}. Give --traceback for where" if causes else None


def _named(error: BaseException) -> str:
    """The message; an error of neither this library nor Spark nor the file system is named."""
    package = type(error).__module__.partition(".")[0]
    if package in _OURS or package == "pyspark" or isinstance(error, OSError):
        first, _, _ = str(error).partition("\n\nJVM stacktrace")
        return first or type(error).__name__
    return f"{type(error).__name__}: {error}. Give --traceback for where it was raised"
