"""`windows windows`: the rows of open windows."""

from argparse import Namespace

from operators.command.inputs import (
    check_input,
    checkpoint_of,
    frame_of,
    operator_of,
    operator_without_spark,
    reading,
)
from operators.command.rows import check_rows, show_rows
from operators.spark.state.read_windows import read_windows


def run(args: Namespace) -> None:
    """Print or write the rows that `read_windows` returns."""
    found, operator = checkpoint_of(args), operator_without_spark(args.operator)
    check_input(args)
    check_rows(args)
    with reading(args) as spark:
        rows = read_windows(
            found.path,
            operator or operator_of(args.operator),
            frame_of(args, spark),
            args.event_time,
            backend=found.backend,
            batch=found.batch,
            number=found.operator,
            snapshots=found.snapshots,
        )
        show_rows(rows, args, "reading open windows")
