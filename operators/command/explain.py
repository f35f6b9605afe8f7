"""`windows explain`: what an operator does, and why."""

from argparse import Namespace
from pathlib import Path

import pyarrow.parquet as pq

from operators.command.inputs import check_input, folder_of, frame_of, operator_of, operator_without_spark
from operators.command.session import session
from operators.command.text.output import say
from operators.explain.explanation import Explanation


def run(args: Namespace) -> None:
    """Print the explanation of an operator, on a stream and on a bounded frame.

    It needs a session for a checkpoint, for Columns of Spark, and for any input but a Parquet file.
    """
    checkpoint = None if args.checkpoint is None else folder_of(args.checkpoint)
    operator, like = operator_without_spark(args.operator), Path(args.like or "")
    if checkpoint is None and operator is not None and like.suffix == ".parquet" and like.is_file():
        say(str(Explanation.of(operator, pq.read_schema(like), args.event_time)))
        return
    check_input(args)
    with session(dict(args.conf), quiet=not args.traceback) as spark:
        from operators.spark.base.types import arrow_schema

        frame = frame_of(args, spark)
        explained = (
            Explanation.of_columns(operator_of(args.operator), frame, args.event_time)
            if operator is None
            else Explanation.of(operator, arrow_schema(frame.schema), args.event_time)
        )
        if checkpoint is not None:
            explained = explained.with_since(checkpoint, args.operator_number)
        say(str(explained))
