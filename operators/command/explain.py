"""`windows explain`: what an operator does, and why."""

from argparse import Namespace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from operators.command.inputs import check_input, frame_of, operator_of, operator_without_spark
from operators.command.session import session
from operators.command.text.output import say
from operators.explain.explanation import Explanation

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def run(args: Namespace) -> None:
    """Print the explanation of an operator. With a Parquet file as input, only one with Columns of Spark needs a session."""
    operator, like = operator_without_spark(args.operator), Path(args.like or "")
    if operator is not None and like.suffix == ".parquet" and like.is_file():
        _show(operator, pq.read_schema(like), args)
        return
    check_input(args)
    with session(dict(args.conf), quiet=not args.traceback) as spark:
        from pyspark.sql.pandas.types import to_arrow_schema

        frame = frame_of(args, spark)
        if operator is None:
            _show(operator_of(args.operator), frame, args)
        else:
            _show(operator, to_arrow_schema(frame.schema), args)


def _show(operator: Any, frame: "DataFrame | pa.Schema", args: Namespace) -> None:
    say(str(Explanation.of(operator, frame, args.event_time)))
