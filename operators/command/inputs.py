"""What the arguments name: a state, an operator of the user, and the columns of its input."""

import sys
from argparse import Namespace
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from traceback import extract_tb
from typing import TYPE_CHECKING, Any

from operators.command.errors import CommandError
from operators.command.session import session
from operators.spark.base.session import PARTITIONS_KEY
from state_backends.checkpoints.metadata import StoredOperator, operators_in
from state_backends.checkpoints.query import StoredQuery, stored_query
from state_backends.checkpoints.reading import Checkpoint, journal_rows, plain_path
from state_backends.durability.folders import absolute

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FORMATS = {".parquet": "parquet", ".json": "json", ".jsonl": "json", ".ndjson": "json", ".csv": "csv"}


def checkpoint_of(args: Namespace, number: int | None = None) -> Checkpoint:
    """Return the state that arguments name, of an operator of that number if one is given.

    Raises:
        CommandError: there is no such folder.
    """
    path = folder_of(args.checkpoint)
    operator = number if number is not None else args.operator_number or 0
    return Checkpoint(path, args.backend, args.batch, operator, args.snapshots)


def query_of(args: Namespace) -> StoredQuery:
    """Return the query of the checkpoint.

    Raises:
        CommandError: there is no such folder.
        NoBatchError: no batch was committed.
    """
    return stored_query(checkpoint_of(args).path, args.batch)


def folder_of(checkpoint: str) -> str:
    """Return a checkpoint folder as an absolute path, or as the URI that was given.

    Raises:
        CommandError: there is no such folder.
    """
    path = absolute(checkpoint)
    if "://" not in path and not Path(path.removeprefix("file:")).is_dir():
        raise CommandError(f"there is no folder {path}: give the checkpoint folder of a query that has run")
    return path


@contextmanager
def reading(args: Namespace) -> "Iterator[SparkSession]":
    """Provide a session that reads the state of the checkpoint: each bucket in a task, as its query has it.

    Raises:
        CommandError: there is no such folder.
        NoBatchError: no batch was committed.
    """
    partitions = query_of(args).conf.get(PARTITIONS_KEY, "")
    tasks = int(partitions) if partitions.isdecimal() else None
    with session(dict(args.conf), tasks=tasks, quiet=not args.traceback) as spark:
        yield spark


def operators_of(args: Namespace, spark: "SparkSession") -> list[StoredOperator]:
    """Return the operators with state of the checkpoint, one of which is of this library.

    Raises:
        StateError: there are none, or the one that the arguments name is another's; says what there is.
    """
    named = args.operator_number
    found = operators_in(plain_path(checkpoint_of(args).path), spark)
    ours = [operator.number for operator in found if operator.is_ours]
    if not ours or (named is not None and named not in ours):
        journal_rows(checkpoint_of(args), spark)  # raises the error that says why
    return found


def operator_of(text: str) -> Any:
    """Return the operator that `module:name` names. Modules in the working directory are found, behind all others.

    Raises:
        CommandError: there is no such module, no such name in it, or what it names is no operator.
    """
    module, colon, path = text.partition(":")
    if not (module and colon and path):
        raise CommandError(
            f"the operator is {text!r}: give a module and a name in it, such as jobs.delays:op"
        )
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.append(here)
    found = _import(module)
    for name in path.split("."):
        if not hasattr(found, name):
            raise CommandError(f"the module {module} has no {path!r}: give the name of the operator in it")
        found = getattr(found, name)
    if not all(hasattr(found, name) for name in ("bind", "bounded", "as_on_close")):
        raise CommandError(
            f"{text} is a {type(found).__name__}, not an operator with its keys: give what `apply` is called on"
        )
    return found


def operator_without_spark(text: str) -> Any | None:
    """Return the operator like `operator_of`, or None if its module makes Columns of Spark, which need a session.

    Raises:
        CommandError: as `operator_of`.
    """
    try:
        return operator_of(text)
    except Exception as error:
        from pyspark.sql import SparkSession

        raised_in = Path(extract_tb(error.__traceback__)[-1].filename)
        if SparkSession.getActiveSession() is None and "pyspark" in raised_in.parts:
            return None
        raise


def _import(module: str) -> Any:
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module}.".startswith(f"{error.name}."):
            raise CommandError(f"the module {module} cannot be imported: {error}") from error
        raise CommandError(
            f"there is no module {module}: call the command in the folder that has it, or set PYTHONPATH to this folder"
        ) from error


def check_input(args: Namespace) -> None:
    """Refuse a file of columns that cannot be read, before Spark starts.

    Raises:
        CommandError: the file does not exist, or is of an unknown format.
    """
    if args.like is not None:
        path = Path(args.like)
        if not path.exists():
            raise CommandError(
                f"there is no file {args.like}: give --like a file with the columns, or --schema"
            )
        file_format(path)


def frame_of(args: Namespace, spark: "SparkSession") -> "DataFrame":
    """Return an empty frame with the columns that arguments name.

    Raises:
        CommandError: the file does not exist, or is of an unknown format.
    """
    if args.schema is not None:
        return spark.createDataFrame([], schema=args.schema)
    check_input(args)
    path = Path(args.like)
    kind = file_format(path)
    reader = spark.read.options(header="true", inferSchema="true") if kind == "csv" else spark.read
    return reader.format(kind).load(str(path.absolute())).limit(0)


def file_format(path: Path) -> str:
    """Return the format of a file or a folder of files, by their names.

    Raises:
        CommandError: it is unknown.
    """
    for file in (path, *(sorted(path.iterdir()) if path.is_dir() else ())):
        if not file.name.startswith((".", "_")) and file.suffix in FORMATS:
            return FORMATS[file.suffix]
    raise unknown_format(path)


def unknown_format(path: Path) -> CommandError:
    """Return the error of a file whose name does not say what it is."""
    return CommandError(f"{path} is of an unknown format: known are {', '.join(FORMATS)}")
