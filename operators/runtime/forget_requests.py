"""`forget`: ask a query to forget keys; and what became of such requests."""

from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path

from operators.columns.checks import list_names
from operators.errors import DefinitionError
from operators.runtime.keys_to_forget import Keys, encoded_keys
from serializers import CorruptDataError
from state_backends import StateError
from state_backends.durability.folders import absolute
from state_backends.durability.request_folder import ForgetRequest, RequestFile, RequestFolder, RequestReader

_NOBODY = (
    "no operator of this name looks for requests in the folder {} any more: start its query with this folder, or, if it has "
    "ended for good, delete the request's file, which holds the keys"
)


@dataclass(frozen=True, slots=True)
class RequestStatus:
    """A request to forget keys, and how far it has come.

    Attributes:
        number: the number of the request.
        operator: name of the operator.
        keys: how many keys it names.
        counts_from: batches that begin at this time or later apply it.
        applied: buckets whose committed state is without the keys.
        buckets: how many buckets there are.
        problem: why no query applies it, and what to do; "" if there is no reason.
    """

    number: int
    operator: str
    keys: int
    counts_from: datetime
    applied: int
    buckets: int
    problem: str = ""

    @property
    def done(self) -> bool:
        """Whether all buckets have applied it. The keys are then no longer in the request's file."""
        return not self.problem and self.applied >= self.buckets


def forget(folder: str | Path, keys: Keys, operator: str | None = None) -> RequestStatus:
    """Ask an operator of a query to forget keys. A running query does it with its first batch that begins ten seconds later.

    Of a stopped query, the first batches after its next start do it. All that is stored of the keys goes before the records of
    that batch, in all kinds of windows and custom operators; windows that are open and came out on update are retracted. The
    bucket's log and snapshots begin anew with that batch: O(state) for each bucket that has a key.

    Args:
        folder: what the operator has as option `state.forget.folder`.
        keys: rows of the operator's key columns: a pyarrow Table, or a dictionary for each row. They need not be stored.
        operator: name of the operator, as given to `apply`; None if only one operator looks for requests in the folder.

    Returns:
        the request; `forget_requests` says later how far it has come.

    Raises:
        DefinitionError: the keys are not the operator's, or it is not clear which operator is meant; says why.
        StateError: no operator has looked for requests in the folder yet, or the storage fails.
    """
    requests = RequestFolder(absolute(folder))
    reader = _chosen(requests, operator)
    return _status(requests, requests.write(reader.name, encoded_keys(keys, reader.keys)), reader)


def key_columns(folder: str | Path, operator: str | None = None) -> RequestReader:
    """Return the operator that requests in a folder are for, with its key columns; arguments and errors as for `forget`."""
    return _chosen(RequestFolder(absolute(folder)), operator)


def forget_requests(folder: str | Path) -> list[RequestStatus]:
    """Return all requests to forget keys in a folder, in their order.

    One that no query can apply, since its file is damaged or its operator does not look for requests in the folder any more,
    says so as `problem`.

    Args:
        folder: as for `forget`.

    Raises:
        StateError: the storage fails.
        NewerFormatError: a newer version wrote a file.
    """
    requests = RequestFolder(absolute(folder))
    return [_found(requests, file) for file in requests.files()]


def _found(requests: RequestFolder, file: RequestFile) -> RequestStatus:
    try:
        request = requests.read(file)
    except CorruptDataError as error:
        damaged = ForgetRequest(file, "", 0, None)
        return _status(requests, damaged, None, f"make it again, and delete the file: {error}")
    try:
        reader = requests.reader_of(file)
    except CorruptDataError as error:
        return _status(requests, request, None, f"delete the operator's file and restart the query: {error}")
    gone = reader is None and not file.done
    return _status(requests, request, reader, _NOBODY.format(requests.shown) if gone else "")


def _chosen(requests: RequestFolder, operator: str | None) -> RequestReader:
    readers = {reader.name: reader for reader in requests.readers()}
    if not readers:
        raise StateError(
            f"no operator has looked for requests in the folder {requests.shown} yet: start the query with the option "
            "state.forget.folder set to this folder, and wait for its first batch. A query can get the option at any restart"
        )
    if operator is None and len(readers) > 1:
        raise DefinitionError(
            f"several operators look for requests in the folder {requests.shown}: {', '.join(readers)}. Each has its "
            "own state: say which one, and make a request for each that has the keys"
        )
    name = next(iter(readers)) if operator is None else operator
    if name not in readers:
        raise DefinitionError(
            f"no operator named {name!r} has looked for requests in the folder {requests.shown}; those that have: "
            f"{list_names(name, readers)}"
        )
    return readers[name]


def _status(
    requests: RequestFolder, request: ForgetRequest, reader: RequestReader | None, problem: str = ""
) -> RequestStatus:
    number = request.file.number
    return RequestStatus(
        number,
        request.operator,
        request.count,
        datetime.fromtimestamp(number / 1_000, timezone.utc),
        0 if reader is None else requests.applied(request.file, reader),
        0 if reader is None else reader.buckets,
        problem,
    )
