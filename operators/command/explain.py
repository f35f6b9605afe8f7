"""`windows explain`: what an operator does, and why."""

from argparse import Namespace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from operators.command.inputs import check_input, frame_of, operator_of
from operators.command.session import session
from operators.command.text.output import say
from operators.explain.explanation import Explanation


def run(args: Namespace) -> None:
    """Print the explanation of an operator. With a Parquet file as input, it needs no Spark."""
    operator, like = operator_of(args.operator), Path(args.like or "")
    if like.suffix == ".parquet" and like.is_file():
        _show(operator, pq.read_schema(like), args)
        return
    check_input(args)
    with session(dict(args.conf), quiet=not args.traceback) as spark:
        from pyspark.sql.pandas.types import to_arrow_schema

        _show(operator, to_arrow_schema(frame_of(args, spark).schema), args)


def _show(operator: Any, schema: pa.Schema, args: Namespace) -> None:
    say(str(Explanation.of(operator, schema, args.event_time)))
