"""Requests to forget keys, as files of a folder that an operator of a query looks into with each batch.

    operators/OPERATOR.json               an operator that looks here: its name, its key columns, its buckets
    requests/NUMBER-OPERATOR-TOKEN.json   a request: the operator, and the keys as the store has them
    requests/NUMBER-OPERATOR-TOKEN.done.json    the same without its keys, once all buckets have applied it
    applied/NUMBER-OPERATOR-TOKEN/STATE-LABEL   a bucket whose committed state is without the keys
    missed/NUMBER-OPERATOR-TOKEN/LABEL          a bucket that could not apply the request, since it had no keys to read

OPERATOR is a hash of the operator's name, STATE one of the id of its query's checkpoint, TOKEN random. JSON files have their
SHA-256 in the first line. A request does not change until all buckets have applied it: then a file without its keys, but with
their number, takes its place. While there are both, whose writer was killed, the bucket of label 0 removes the one with keys.
An operator of the same name, of another checkpoint, is refused.

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
from serializers.schemas import read_schema
from serializers.shapes import count, instance, list_of, refusing
from state_backends.durability.folders import Folder
from state_backends.durability.signed import decode_signed, encode_signed
from state_backends.errors import StateError

REQUEST_VERSION = 1
_LATER_MS = 10_000
"""A request counts from so long after it was written: more than the clocks of machines differ."""
_MOST_BEHIND_MS = 3_600_000
"""A clock that is further behind the one of an earlier request is not corrected: that one may be years ahead."""
_PART_S = 3_600.0
"""A file that is so old and not yet complete belongs to a writer that was killed."""
_FILE = re.compile(r"requests/([0-9]{1,14})-([0-9a-f]{16})-[0-9a-f]{16}([.]done)?[.]json")


@dataclass(frozen=True, slots=True)
class RequestFile:
    """A request by its file.

    Attributes:
        number: the time from which it counts, in milliseconds since the epoch.
        operator: a hash of the operator's name.
        path: its path in the folder, as long as it has keys.
        done: whether all buckets have applied it, so that there is a file without keys.
        has_keys: whether there is a file with keys. It may be there beside the other one.
    """

    number: int
    operator: str
    path: str
    done: bool = False
    has_keys: bool = True

    @property
    def without_keys(self) -> str:
        """The file without keys."""
        return self.path.removesuffix(".json") + ".done.json"

    @property
    def applied(self) -> str:
        """The folder of the buckets that have applied it."""
        return self.path.replace("requests/", "applied/", 1).removesuffix(".json")

    @property
    def missed(self) -> str:
        """The folder of the buckets that could not apply it."""
        return self.path.replace("requests/", "missed/", 1).removesuffix(".json")

    def missed_by(self, label: int) -> str:
        """The file by which a bucket says that it could not apply it."""
        return f"{self.missed}/{label}"

    def note_of(self, label: int, state: str = "") -> str:
        """The file by which a bucket of a state says that it has applied it."""
        return f"{self.applied}/{operator_hash(state)}-{label}"


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
        name: the name of the operator.
        keys: names and Arrow types of its key columns.
        buckets: how many there are.
        state: the id of its query's checkpoint.
    """

    name: str
    keys: pa.Schema
    buckets: int
    state: str = ""

    def encode(self) -> bytes:
        """Return the file's bytes."""
        plain = {
            "operator": self.name,
            "keys": base64.b64encode(self.keys.serialize().to_pybytes()).decode(),
            "buckets": self.buckets,
            "state": self.state,
        }
        return encode_signed(plain, REQUEST_VERSION)

    @classmethod
    def decode(cls, blob: bytes, what: str) -> "RequestReader":
        """Return the operator that `encode` wrote; arguments and errors as for `ForgetRequest.decode`."""
        plain = decode_signed(blob, REQUEST_VERSION, what)
        with refusing(what):
            stored = base64.b64decode(instance(str, plain["keys"]), validate=True)
            keys = read_schema(stored, f"{what}: the schema of its key columns")
            state = instance(str, plain.get("state", ""))
            return cls(instance(str, plain["operator"]), keys, count(plain["buckets"]), state)


def operator_hash(name: str) -> str:
    """Return what stands for an operator in names of files."""
    return hashlib.sha256(name.encode()).hexdigest()[:16]


class RequestFolder:
    """The requests of a folder.

    Args:
        uri: the URI of the folder, as `Folder` takes it.
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

    def announce(self, reader: RequestReader) -> str | None:
        """Say that an operator looks for requests here. If one of its name and of another state does, return that one's file.

        Raises:
            CorruptDataError: the file of an operator of this name is damaged.
        """
        name, blob = f"operators/{operator_hash(reader.name)}.json", reader.encode()
        stored = self._folder.read(name)
        if stored == blob:
            return None
        if stored is not None and self._reader(name).state not in ("", reader.state):
            return self._folder.where(name)
        self._folder.write(name, blob)
        return None

    def reader_of(self, file: RequestFile) -> RequestReader | None:
        """Return the operator of a request; None if it does not look for requests here.

        Raises:
            CorruptDataError: its file is damaged.
        """
        name = f"operators/{file.operator}.json"
        return self._reader(name) if self._folder.has(name) else None

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
        number = int(time.time() * 1_000) + self._later_ms
        # Buckets that have applied a request pass over lower numbers. So one from a machine whose clock is behind follows it.
        known = (file.number for file in self.files())
        number = max([number, *(one + 1 for one in known if one <= number + _MOST_BEHIND_MS)])
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
        """Return all requests by their files, in order of their numbers. What killed writers left is removed."""
        listed = self._folder.list("requests")
        for path, written, _ in listed:
            if path.endswith(".part") and written is not None and time.time() - written.timestamp() > _PART_S:
                self._folder.remove(path)
        found = [match for path, *_ in listed if (match := _FILE.fullmatch(path))]
        done = {match[0].removesuffix(".done.json") + ".json" for match in found if match[3]}
        whole = {match[0] for match in found if not match[3]}
        files = {match[0].replace(match[3] or "", ""): (int(match[1]), match[2]) for match in found}
        return sorted(
            (RequestFile(*told, path, path in done, path in whole) for path, told in files.items()),
            key=lambda file: (file.number, file.path),
        )

    def read(self, file: RequestFile) -> ForgetRequest:
        """Return a request.

        Raises:
            CorruptDataError: it is damaged or missing; names the file.
        """
        return ForgetRequest.decode(file, *self._read(file.without_keys if file.done else file.path))

    def notes(self) -> set[str]:
        """Return the files by which buckets say that they have applied requests; see `RequestFile.note_of`."""
        return {path for path, *_ in self._folder.list("applied")}

    def note(self, file: RequestFile, label: int, reader: RequestReader) -> None:
        """Note that the committed state of a bucket is without the keys; the last one takes them out of the request.

        A bucket that has missed the request notes nothing.

        Args:
            file: the file of the request.
            label: the label of the bucket.
            reader: the operator, with its state.
        """
        if self._folder.has(file.missed_by(label)):
            return
        self._folder.write(file.note_of(label, reader.state), b"")
        self.finish(file, reader)

    def finish(self, file: RequestFile, reader: RequestReader) -> None:
        """Take the keys out of a request that all buckets have applied. Whoever began that may have been killed.

        Args:
            file: the file of the request; one that was listed as without keys is left alone.
            reader: the operator, with its state.
        """
        if not file.has_keys or not (file.done or self.applied(file, reader) >= reader.buckets):
            return
        if not self._folder.has(file.without_keys):
            blob = self._folder.read(file.path)
            if blob is None:  # Another bucket was faster.
                return
            request = ForgetRequest.decode(file, blob, f"the file {self._folder.where(file.path)}")
            self._folder.write(file.without_keys, replace(request, keys=None).encode())
        self._folder.remove(file.path)

    def miss(self, file: RequestFile, label: int) -> None:
        """Note that a bucket passes a request whose keys it could not read: it never counts as applied there."""
        self._folder.write(file.missed_by(label), b"")

    def applied(self, file: RequestFile, reader: RequestReader) -> int:
        """Return how many buckets of the operator's state have applied a request, and have not missed it since."""
        missed = {path.rpartition("/")[2] for path, *_ in self._folder.list(file.missed)}
        if file.done:
            return max(0, reader.buckets - len(missed))
        note = re.compile(re.escape(file.note_of(0, reader.state)[:-1]) + "(-?[0-9]{1,10})")
        found = (note.fullmatch(path) for path, *_ in self._folder.list(file.applied))
        return sum(match is not None and match[1] not in missed for match in found)
