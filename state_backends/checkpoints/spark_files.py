"""Spark's own small files in a checkpoint: which of them was cut off or altered, and how a query goes on without it.

Spark's error for such a file is one of its parser, and often does not name the file.
"""

import json
import re
import struct
from collections.abc import Callable, Iterator
from io import BytesIO
from itertools import count
from pathlib import Path

from state_backends.checkpoints.metadata import way_out_from
from state_backends.durability.folders import Folder
from state_backends.errors import StateError

_OPERATORS = re.compile(r"state/\d+/_metadata/(?:metadata|v\d+/\d+)")
_SCHEMAS = re.compile(r"state/\d+/_stateSchema/\w+/[^/.][^/]*")
_VERSION = re.compile(r"v\d+")
WITHOUT_ID = (
    "Restore it from a copy of the checkpoint. Or delete it, save the state with write_savepoint(checkpoint, folder), and "
    "start with a new checkpoint and options={'state.savepoint': folder}"
)
"""How a query goes on without its file `metadata`."""
_QUERY = f"It has the id of the query. {WITHOUT_ID}"
_COMMIT = (
    "It says that batch {0} is done. Restore it from a copy of the checkpoint. Or delete it: Spark then runs batch {0} again, "
    "on the same records"
)
_OFFSETS = (
    "It says which records batch {0} has. Restore it from a copy of the checkpoint. Or go on without it. {1}"
)
_LISTED = (
    "It lists the operators with state. Restore it from a copy of the checkpoint. Without it, neither Spark nor "
    "write_savepoint can read the state: start with a new checkpoint"
)

_DESCRIBED = (
    "It describes the columns of Spark's state store. Restore it from a copy of the checkpoint. Without it, neither Spark nor "
    "write_savepoint can read the state: start with a new checkpoint"
)


def damaged_file(checkpoint: str) -> str | None:
    """Return which of Spark's files is empty, cut off or altered, and the way out; None if none of them is seen to be.

    Only those are read that Spark reads when a query goes on: a few hundred bytes each. They have no checksum of ours, so that
    an altered number is not found.

    Args:
        checkpoint: the folder, absolute or a URI.
    """
    folder = Folder(checkpoint)
    try:
        for name, is_sound, way_out in _read(folder):
            if not is_sound(folder.read(name) or b""):
                return f"Spark's file {name} in the checkpoint {folder.shown} is empty, cut off or altered. {way_out}"
    except StateError:  # What the storage says is told by whoever needs the file.
        pass
    return None


def _read(folder: Folder) -> Iterator[tuple[str, Callable[[bytes], bool], str]]:
    """The files that Spark reads, with what tells whether each is sound, and the way out if not."""
    if folder.read("metadata") is not None:
        yield "metadata", _has_id, _QUERY
    committed, planned = (_numbers(folder, name) for name in ("commits", "offsets"))
    if committed:
        yield f"commits/{max(committed)}", _has_version, _COMMIT.format(max(committed))
    for batch in sorted({*committed[-1:], *planned[-1:]}.intersection(planned)):
        yield f"offsets/{batch}", _has_version, _OFFSETS.format(batch, way_out_from(batch - 1))
    for operator in count():
        names = [file.name for file in folder.list(f"state/{operator}/_metadata")]
        if not names:
            return
        for name in filter(_OPERATORS.fullmatch, names):
            yield name, _has_version, _LISTED
        schemas = [file.name for file in folder.list(f"state/{operator}/_stateSchema")]
        for name in filter(_SCHEMAS.fullmatch, schemas):
            yield name, _has_columns, _DESCRIBED


def _numbers(folder: Folder, name: str) -> list[int]:
    """The numbers that files of a folder are named by, in order."""
    names = [Path(file.name).name for file in folder.list(name)]
    return sorted(int(name) for name in names if name.isdecimal())


def _has_id(data: bytes) -> bool:
    try:
        return isinstance(json.loads(data.decode())["id"], str)
    except (ValueError, TypeError, LookupError, RecursionError):
        return False


def _has_version(data: bytes) -> bool:
    """Whether a line of JSON follows the number of a version, as Spark writes it, and objects in further lines are whole.

    These are offsets of sources: "-" stands for none, and a source may have a form of its own.
    """
    try:
        first, second, *rest = data.decode().splitlines()
        for line in (second, *(line for line in rest if line.startswith(("{", "[")))):
            json.loads(line)
    except (ValueError, RecursionError):
        return False
    return _VERSION.fullmatch(first) is not None


def _has_columns(data: bytes) -> bool:
    """Whether the column families of a state store are whole, in the third version of Spark's format; others are not looked at.

    Java's `DataOutputStream` wrote it: the version, how many families there are, and of each its name, number and schema of
    keys, number and schema of values, how keys are encoded, and the schema of the user's key. All but names and numbers are
    JSON in pieces.
    """
    stream = BytesIO(data)
    try:
        if _text(stream) != "v3":
            return data[:3] in (b"\x00\x02v", b"\x00\x03v")
        for _ in range(*_numbers_of(stream, ">I")):
            _text(stream)
            for number in (">H", ">H", "", ""):
                _numbers_of(stream, number)
                json.loads("".join(_text(stream) for _ in range(*_numbers_of(stream, ">I"))))
    except (ValueError, RecursionError, struct.error):
        return False
    return not stream.read(1)


def _text(stream: BytesIO) -> str:
    (length,) = _numbers_of(stream, ">H")
    data = stream.read(length)
    if len(data) < length:
        raise ValueError("cut off")
    return data.decode()


def _numbers_of(stream: BytesIO, form: str) -> tuple[int, ...]:
    return struct.unpack(form, stream.read(struct.calcsize(form)))
