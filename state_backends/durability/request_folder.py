"""Requests to forget keys, as files of a folder that an operator of a query looks into with each batch.

    operators/OPERATOR.json               an operator that looks here: its name, its key columns, its buckets
    requests/NUMBER-OPERATOR-TOKEN.json   a request: the operator, and the keys as the store has them
    applied/NUMBER-OPERATOR-TOKEN/LABEL   a bucket whose committed state is without the keys

OPERATOR is a hash of the operator's name, TOKEN random. JSON files have their SHA-256 in the first line. A request does not
change until all buckets have applied it: then its keys are taken out, and their number stays.

NUMBER is the time from which a request counts, in milliseconds since the epoch, some seconds after it was written. A batch
applies the requests up to its own clock, which Spark keeps with the batch. So tasks that run again find the same ones.
"""

import base64
import hashlib
import os
import re
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from serializers import CorruptDataError
from serializers.shapes import count, instance, list_of, refusing
from state_backends.durability.folders import Folder
from state_backends.durability.signed import decode_signed, encode_signed
from state_backends.errors import StateError

REQUEST_VERSION = 1
_LATER_MS = 10_000
"""A request counts from so long after it was written: more than the clocks of machines differ."""
_FILE = re.compile(r"requests/([0-9]{1,19})-([0-9a-f]{16})-[0-9a-f]{16}[.]json")


@dataclass(frozen=True, slots=True)
class RequestFile:
    """A request by its file.

    Attributes:
        number: the time from which it counts, in milliseconds since the epoch.
        operator: a hash of the operator's name.
        path: in the folder.
    """

    number: int
    operator: str
    path: str

    @property
    def applied(self) -> str:
        """The folder of the buckets that have applied it."""
        return self.path.replace("requests/", "applied/", 1).removesuffix(".json")

    def note_of(self, label: int) -> str:
        """The file by which a bucket says that it has applied it."""
        return f"{self.applied}/{label}"


@dataclass(frozen=True, slots=True)
class ForgetRequest:
    """A request to forget keys.

    Attributes:
        file: where it is.
        operator: name of the operator.
        count: number of keys.
        keys: as the store has them; None once all buckets have applied the request.
    """

    file: RequestFile
    operator: str
    count: int
    keys: tuple[bytes, ...] | None

    def encode(self) -> bytes:
        """Return the file's bytes."""
        keys = self.keys
        plain = {
            "operator": self.operator,
            "count": self.count,
            "keys": None if keys is None else [base64.b64encode(key).decode() for key in keys],
        }
        return encode_signed(plain, REQUEST_VERSION)

    @classmethod
    def decode(cls, file: RequestFile, blob: bytes, what: str) -> "ForgetRequest":
        """Return the request that `encode` wrote.

        Args:
            file: where it is.
            blob: the file's bytes.
            what: names the file in errors.

        Raises:
            CorruptDataError: it is truncated or altered.
            NewerFormatError: a newer version wrote it.
        """
        plain = decode_signed(blob, REQUEST_VERSION, what)
        with refusing(what):
            stored = plain["keys"]
            keys = None
            if stored is not None:
                keys = tuple(base64.b64decode(key, validate=True) for key in list_of(str, stored))
            return cls(file, instance(str, plain["operator"]), count(plain["count"]), keys)


@dataclass(frozen=True, slots=True)
class RequestReader:
    """An operator of a query that looks for requests.

    Attributes:
        name: of the operator.
        keys: names and Arrow types of its key columns.
        buckets: how many there are.
    """

    name: str
    keys: pa.Schema
    buckets: int

    def encode(self) -> bytes:
        """Return the file's bytes."""
        plain = {
            "operator": self.name,
            "keys": base64.b64encode(self.keys.serialize().to_pybytes()).decode(),
            "buckets": self.buckets,
        }
        return encode_signed(plain, REQUEST_VERSION)

    @classmethod
    def decode(cls, blob: bytes, what: str) -> "RequestReader":
        """Return the operator that `encode` wrote; arguments and errors as for `ForgetRequest.decode`."""
        plain = decode_signed(blob, REQUEST_VERSION, what)
        with refusing(what):
            stored = base64.b64decode(instance(str, plain["keys"]), validate=True)
            try:
                keys = pa.ipc.read_schema(pa.py_buffer(stored))
            except (OSError, pa.ArrowException) as error:
                raise CorruptDataError(f"{what}: its key columns cannot be read: {error}") from error
            return cls(instance(str, plain["operator"]), keys, count(plain["buckets"]))


def operator_hash(name: str) -> str:
    """Return what stands for an operator in names of files."""
    return hashlib.sha256(name.encode()).hexdigest()[:16]


class RequestFolder:
    """The requests of a folder.

    Args:
        uri: of the folder, as `Folder` takes it.
        later_ms: how long after a request is written it counts, in milliseconds.

    Raises:
        StateError: here, the URI is not valid; from each method, the storage fails.
    """

    def __init__(self, uri: str, later_ms: int = _LATER_MS) -> None:
        self._folder = Folder(uri)
        self._later_ms = later_ms

    @property
    def shown(self) -> str:
        """The folder, for messages."""
        return self._folder.shown

    def announce(self, reader: RequestReader) -> None:
        """Say that an operator looks for requests here."""
        name, blob = f"operators/{operator_hash(reader.name)}.json", reader.encode()
        if self._folder.read(name) != blob:
            self._folder.write(name, blob)

    def readers(self) -> list[RequestReader]:
        """Return the operators that look for requests here.

        Raises:
            CorruptDataError: a file is damaged.
        """
        paths = sorted(path for path, *_ in self._folder.list("operators") if path.endswith(".json"))
        return [self._reader(path) for path in paths]

    def _reader(self, path: str) -> RequestReader:
        return RequestReader.decode(*self._read(path))

    def _read(self, path: str) -> tuple[bytes, str]:
        what, blob = f"the file {self._folder.where(path)}", self._folder.read(path)
        if blob is None:
            raise CorruptDataError(f"{what} is missing")
        return blob, what

    def write(self, operator: str, keys: Sequence[bytes]) -> ForgetRequest:
        """Write a request.

        Args:
            operator: name of the operator.
            keys: distinct keys, as the store has them.

        Raises:
            StateError: the storage took longer than the time until the request counts.
        """
        before = [file.number for file in self.files()]
        number = max([int(time.time() * 1_000) + self._later_ms, *(one + 1 for one in before)])
        path = f"requests/{number}-{operator_hash(operator)}-{os.urandom(8).hex()}.json"
        file = RequestFile(number, operator_hash(operator), path)
        request = ForgetRequest(file, operator, len(keys), tuple(keys))
        self._folder.write(path, request.encode())
        if self._later_ms and time.time() * 1_000 > number:
            self._folder.remove(path)
            raise StateError(
                f"the storage of {self.shown} took longer than {self._later_ms / 1_000:g} s to write the request, which was "
                "taken back: try again"
            )
        return request

    def files(self) -> list[RequestFile]:
        """Return all requests by their files, in order of their numbers."""
        found = (_FILE.fullmatch(path) for path, *_ in self._folder.list("requests"))
        return sorted(
            (RequestFile(int(match[1]), match[2], match[0]) for match in found if match),
            key=lambda file: (file.number, file.path),
        )

    def read(self, file: RequestFile) -> ForgetRequest:
        """Return a request.

        Raises:
            CorruptDataError: it is damaged or missing; names the file.
        """
        return ForgetRequest.decode(file, *self._read(file.path))

    def notes(self) -> set[str]:
        """Return the files by which buckets say that they have applied requests; see `RequestFile.note_of`."""
        return {path for path, *_ in self._folder.list("applied")}

    def note(self, file: RequestFile, label: int, buckets: int) -> None:
        """Note that the committed state of a bucket is without the keys; the last one takes them out of the request.

        Args:
            file: of the request.
            label: of the bucket.
            buckets: how many there are.
        """
        self._folder.write(file.note_of(label), b"")
        if self.applied(file) >= buckets:
            request = self.read(file)
            if request.keys is not None:
                self._folder.write(file.path, replace(request, keys=None).encode())

    def applied(self, file: RequestFile) -> int:
        """Return how many buckets have applied a request."""
        return len(self._folder.list(file.applied))
