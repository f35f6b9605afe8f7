"""The sub-commands of `windows` and their arguments."""

import argparse
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from operators.command import explain, forget, savepoint, show_open_windows, state, summary, write_report
from state_backends.checkpoints.survey import MOST_KEYS

Run = Callable[[argparse.Namespace], None]
_OPERATOR = "the operator: a module that Python can import, and a name in it"
_PACKAGE = "spark-stateful-windows"
_DESCRIPTION = """Looks at the checkpoints of stopped queries, explains operators, and asks queries to forget keys.
Nothing in a checkpoint is changed.

A checkpoint is the folder that a query got as `checkpointLocation`. Times are in UTC."""


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command's arguments. The result has the function to call as `run`."""
    whole = argparse.ArgumentParser(
        "windows", description=_DESCRIPTION, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    whole.add_argument("--version", action="version", version=_version())
    commands = whole.add_subparsers(required=True, metavar="COMMAND")
    for add in (_summary, _state, _windows, _savepoint, _forget, _explain, _report):
        _add_run_arguments(add(commands))
    return whole


def _command(commands: Any, name: str, run: Run, says: str) -> argparse.ArgumentParser:
    added = commands.add_parser(name, help=says[0].lower() + says[1:].rstrip("."), description=says)
    added.set_defaults(run=run)
    return added


def _summary(commands: Any) -> argparse.ArgumentParser:
    says = "Print what a checkpoint's operators are, and how much they store."
    command = _command(commands, "summary", summary.run, says)
    _add_state_arguments(command)
    command.add_argument("--limit", type=_positive, default=40, metavar="N", help="rows of a table (40)")
    command.add_argument(
        "--keys",
        type=_whole,
        default=3,
        metavar="N",
        help=f"largest keys of each bucket (3, at most {MOST_KEYS}); 0 if nobody may see keys",
    )
    command.add_argument("--json", action="store_true", help="print JSON, with all rows")
    return command


def _state(commands: Any) -> argparse.ArgumentParser:
    command = _command(commands, "state", state.run, "Print or write the stored panes or windows.")
    _add_state_arguments(command, 0)
    _add_row_arguments(command)
    return command


def _windows(commands: Any) -> argparse.ArgumentParser:
    command = _command(commands, "windows", show_open_windows.run, "Print or write the rows of open windows.")
    _add_state_arguments(command, 0)
    group = command.add_argument_group("which operator")
    group.add_argument("--operator", required=True, metavar="MODULE:NAME", help=_OPERATOR)
    _add_input_arguments(group)
    _add_row_arguments(command)
    return command


def _savepoint(commands: Any) -> argparse.ArgumentParser:
    says = "Write a savepoint, for a new query to start from."
    command = _command(commands, "savepoint", savepoint.run, says)
    _add_state_arguments(command, 0)
    command.add_argument(
        "folder", metavar="FOLDER", help="a new folder: a path, or a URI of s3, gs, abfs or hdfs"
    )
    command.add_argument("--json", action="store_true", help="print the savepoint and its origin as JSON")
    return command


def _forget(commands: Any) -> argparse.ArgumentParser:
    says = "Ask a query to forget keys, and print how far requests have come."
    command = _command(commands, "forget", forget.run, says)
    command.add_argument("folder", metavar="FOLDER", help="what the query has as option state.forget.folder")
    command.add_argument(
        "--keys",
        metavar="FILE",
        help="key columns of the keys: .parquet, .json with a line for each key, or .csv",
    )
    command.add_argument("--name", metavar="NAME", help="name of the operator, if there are several")
    command.add_argument("--json", action="store_true", help="print a line of JSON for each request")
    return command


def _explain(commands: Any) -> argparse.ArgumentParser:
    command = _command(commands, "explain", explain.run, "Explain an operator without running it.")
    command.add_argument("operator", metavar="MODULE:NAME", help=_OPERATOR)
    command.add_argument(
        "--checkpoint",
        metavar="CHECKPOINT",
        help="checkpoint folder of a query with this operator, which may run: says since when aggregates that were added count",
    )
    command.add_argument(
        "--operator-number",
        type=_whole,
        default=0,
        metavar="N",
        help="number of the operator among those with state in the checkpoint; Spark counts from the sink (0)",
    )
    _add_input_arguments(command.add_argument_group("its input"))
    return command


def _report(commands: Any) -> argparse.ArgumentParser:
    says = "Write a page about a checkpoint: one file of HTML, without scripts."
    command = _command(commands, "report", write_report.run, says)
    _add_state_arguments(command)
    command.add_argument(
        "--out", required=True, metavar="PAGE", help="the file to write, such as report.html"
    )
    return command


def _version() -> str:
    try:
        return f"{_PACKAGE} {version(_PACKAGE)}"
    except PackageNotFoundError:
        return f"{_PACKAGE}, not installed"


def _add_run_arguments(command: argparse.ArgumentParser) -> None:
    """Add what every sub-command takes."""
    group = command.add_argument_group("how it runs")
    group.add_argument(
        "--conf",
        action="append",
        default=[],
        type=_setting,
        metavar="NAME=VALUE",
        help="a setting of Spark, such as spark.driver.memory=8g; may be given several times",
    )
    group.add_argument(
        "--progress", action="store_true", help="print progress even if stderr is not a terminal"
    )
    group.add_argument(
        "--traceback", action="store_true", help="print Python's traceback and Spark's log of an error"
    )


def _add_state_arguments(command: argparse.ArgumentParser, operator: int | None = None) -> None:
    """Add what names a stored state.

    Args:
        command: the sub-command.
        operator: number of the operator by default; None for all.
    """
    command.add_argument(
        "checkpoint", metavar="CHECKPOINT", help="checkpoint folder of a stopped query, a path or a URI"
    )
    group = command.add_argument_group("which state")
    every = "all operators" if operator is None else f"{operator}"
    group.add_argument("--batch", type=_whole, metavar="N", help="the state after this batch (the last one)")
    group.add_argument(
        "--operator-number",
        type=_whole,
        default=operator,
        metavar="N",
        help=f"number of the operator among those with state; Spark counts from the sink ({every})",
    )
    group.add_argument(
        "--backend", metavar="NAME", help="backend to open the state with, if it is not a built-in one"
    )
    group.add_argument("--snapshots", metavar="FOLDER", help="folder of the snapshots, if it was moved")


def _add_input_arguments(group: Any) -> None:
    """Add what describes the input of an operator."""
    columns = group.add_mutually_exclusive_group(required=True)
    columns.add_argument(
        "--schema", metavar="DDL", help="its columns, such as 'k string, at timestamp, v int'"
    )
    columns.add_argument(
        "--like", metavar="FILE", help="a file or folder of Parquet, JSON lines or CSV with its columns"
    )
    group.add_argument("--event-time", required=True, metavar="COLUMN", help="its event-time column")


def _add_row_arguments(command: argparse.ArgumentParser) -> None:
    """Add what is done with rows."""
    group = command.add_argument_group("what is printed or written")
    group.add_argument("--limit", type=_positive, metavar="N", help="number of rows (20; with --out all)")
    where = group.add_mutually_exclusive_group()
    where.add_argument("--json", action="store_true", help="print a line of JSON for each row")
    where.add_argument(
        "--out", metavar="FILE", help="write a file: .parquet, .csv, or .json with a line for each row"
    )


def _whole(text: str) -> int:
    value = int(text)
    if value < 0:
        raise argparse.ArgumentTypeError(f"{text} is negative")
    return value


def _positive(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{text} is less than 1")
    return value


def _setting(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not (name and equals):
        raise argparse.ArgumentTypeError(f"{text!r} is not of the form NAME=VALUE")
    return name, value
