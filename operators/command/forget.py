"""`windows forget`: ask a query to forget keys, and say how far such requests have come."""

from argparse import Namespace
from pathlib import Path

import pyarrow as pa
import pyarrow.csv as pc
import pyarrow.json as pj
import pyarrow.parquet as pq

from operators.command.errors import CommandError
from operators.command.inputs import file_format
from operators.command.text.formats import counted, json_text, printable
from operators.command.text.output import say
from operators.runtime.forget_requests import RequestStatus, forget, forget_requests, key_columns


def run(args: Namespace) -> None:
    """Write a request for the keys of a file, if one is given; then print all requests."""
    if args.keys is not None:
        columns = key_columns(args.folder, args.name).keys
        forget(args.folder, _keys(Path(args.keys), columns), args.name)
    found = [
        one for one in forget_requests(args.folder) if args.name in (None, one.operator) or not one.operator
    ]
    if args.json:
        for one in found:
            say(json_text(_plain(one)))
        return
    say("\n".join(map(_text, found)) or "there are no requests")


def _keys(path: Path, columns: pa.Schema) -> pa.Table:
    """The rows of a file, of which values without types, as in CSV, are read as the operator's."""
    if not path.exists():
        raise CommandError(
            f"there is no file {path}: give --keys a file with the key columns {', '.join(columns.names)}"
        )
    kind = file_format(path)
    try:
        if kind == "parquet":
            return pq.read_table(path)
        if kind == "json":
            return pj.read_json(path)
        types = dict(zip(columns.names, columns.types, strict=True))
        # An empty field is an empty text; a null cannot be written.
        return pc.read_csv(path, convert_options=pc.ConvertOptions(column_types=types))
    except pa.ArrowException as error:
        raise CommandError(f"the keys in {path} cannot be read: {error}") from error


def _plain(one: RequestStatus) -> dict[str, object]:
    return {
        "request": one.number,
        "operator": one.operator,
        "keys": one.keys,
        "counts from": one.counts_from.isoformat(timespec="milliseconds"),
        "applied": one.applied,
        "buckets": one.buckets,
        "done": one.done,
        "problem": one.problem or None,
    }


def _text(one: RequestStatus) -> str:
    state = (
        f"not applied: {one.problem}"
        if one.problem
        else "done"
        if one.done
        else f"applied by {one.applied} of {counted(one.buckets, 'bucket')}, by batches from "
        f"{one.counts_from:%Y-%m-%d %H:%M:%S} UTC on"
    )
    whose = f"{counted(one.keys, 'key')} of operator {printable(one.operator)}: " if one.operator else ""
    return f"request {one.number}: {whose}{state}"
