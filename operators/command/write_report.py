"""`windows report`: surveys a checkpoint, and writes the page."""

from argparse import Namespace
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING

from operators.command.errors import CommandError, one_line
from operators.command.inputs import checkpoint_of, operators_of, query_of, reading
from operators.command.outputs import check_out, replacing
from operators.command.progress import watched
from operators.command.report.markup import Content, Unread
from operators.command.report.page import page
from operators.command.text.formats import byte_text
from operators.command.text.output import say
from state_backends.checkpoints.survey import StateSurvey, survey

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def run(args: Namespace) -> None:
    """Write the page.

    Raises:
        StateError, CorruptDataError: the state of no operator can be read. Of several operators, the page says of those whose
            state cannot be read why, and the command fails after it has written the page.
    """
    out = Path(args.out)
    check_out(out)
    found = _content(args)
    with replacing(out) as target:
        target.write_text(page(found), encoding="utf-8")
    say(f"{byte_text(out.stat().st_size)} in {out}")
    unread = [one for one in found.operators if isinstance(one, Unread)]
    if unread:
        numbers = ", ".join(str(one.number) for one in unread)
        raise CommandError(f"the page lacks the state of operator {numbers}: {unread[0].why}")


def _content(args: Namespace) -> Content:
    query, path = query_of(args), checkpoint_of(args).path
    with reading(args) as spark:
        there = operators_of(args, spark)
        ours = [one.number for one in there if one.is_ours and args.operator_number in (None, one.number)]
        operators = tuple(_survey(args, number, len(ours) == 1, spark) for number in ours)
    others = tuple(one for one in there if not one.is_ours)
    return Content(path, datetime.now(timezone.utc), query, operators, others)


def _survey(args: Namespace, number: int, alone: bool, spark: "SparkSession") -> StateSurvey | Unread:
    try:
        with watched(spark, f"operator {number}", always=args.progress):
            return survey(checkpoint_of(args, number), spark)
    except Exception as error:  # of whatever kind: the page says why
        if alone:
            raise
        return Unread(number, one_line(error))
