"""`windows report`: a page about a checkpoint."""

from operators.command.report.run import run

__all__ = ["run"]
