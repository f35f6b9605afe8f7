"""The command `windows`."""

import logging
import os
import sys
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from operators.command.arguments import parser
from operators.command.errors import one_line
from operators.command.text.output import complain

_INTERRUPTED = 130
_PIPE_CLOSED = 141
"""What a shell reports of a program that a signal ended: 128 and the signal's number."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command, and return its exit code: 0, 1 for an error, 130 after Ctrl-C.

    Args:
        arguments: the command's arguments; by default those of the process.

    Raises:
        SystemExit: the arguments are not valid (code 2), or help was printed (code 0).
    """
    args = parser().parse_args(arguments)
    try:
        with _logs(args.traceback):
            args.run(args)
        sys.stdout.flush()
    except KeyboardInterrupt:
        complain("windows: interrupted")
        return _INTERRUPTED
    except BrokenPipeError:
        # Python flushes stdout again at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return _PIPE_CLOSED
    except Exception as error:  # noqa: BLE001 - whatever went wrong is one line
        if args.traceback:
            for line in traceback.format_exc().splitlines():
                complain(line)
        complain(f"windows: error: {one_line(error)}")
        return 1
    return 0


@contextmanager
def _logs(wanted: bool) -> Iterator[None]:
    """Unless they are wanted, have Python log nothing: an error is told at the end, and py4j logs an interruption."""
    before = logging.root.manager.disable
    logging.disable(before if wanted else logging.CRITICAL)
    try:
        yield
    finally:
        logging.disable(before)
