"""`windows state`: the stored panes or windows."""

from argparse import Namespace

from operators.command.inputs import checkpoint_of, reading
from operators.command.rows import check_rows, show_rows
from state_backends import read_state


def run(args: Namespace) -> None:
    """Print or write the rows that `read_state` returns."""
    found = checkpoint_of(args)
    check_rows(args)
    with reading(args) as spark:
        rows = read_state(
            found.path,
            found.backend,
            found.batch,
            operator=found.operator,
            snapshots=found.snapshots,
            spark=spark,
        )
        show_rows(rows, args, "reading state")
