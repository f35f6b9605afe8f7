"""A folder for snapshots and savepoints, on any file system that Arrow knows: local, S3, GCS, HDFS."""

import io
import logging
import os
import re
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime
from functools import cached_property
from pathlib import Path
from threading import Thread
from typing import Any, NamedTuple, TypeVar
from urllib.parse import quote, unquote

from pyarrow import ArrowException, fs

from state_backends.errors import StateError
from state_backends.synced import make_folder, sync_file, sync_folder
from state_backends.uris import SCHEMES, SETTINGS, has_password, has_unknown_settings, shown

_WHOLE_AT_CLOSE = ("s3", "gcs", "abfs")
"""Stores where a file appears as a whole or not at all."""
_CHUNK = 4 << 20
MOST_BYTES = 256 << 20
"""Of a file that is read into memory as a whole."""
_KEPT_IN_URIS = "%/?&=:@+,;!$'()*~[]"
_ACCEPTED = "give an absolute local path, or a URI of s3, gs, abfs or hdfs, such as s3://bucket/path"
_FILE_NAME = re.compile(r"[^/\\\x00-\x1f]{1,255}")
_LOG = logging.getLogger(__name__)
T = TypeVar("T")


def absolute(folder: str | Path) -> str:
    """Return a folder in a form for all processes: a URI, or a local path made absolute."""
    text = str(folder)
    return text if "://" in text or text.startswith("file:") else str(Path(text).absolute())


def stays_inside(name: str) -> bool:
    """Return whether a name in a file is that of a file below its folder, however it is read."""
    return all(_FILE_NAME.fullmatch(part) and set(part) != {"."} for part in name.split("/"))


class Listed(NamedTuple):
    """A file of a folder.

    Attributes:
        name: the name of the file.
        written: when it was last written, if the storage says so.
        size: its bytes.
    """

    name: str
    written: datetime | None
    size: int


class Folder:
    """Files by name below one URI. Names may have slashes; they are made of letters, digits, "-", "_" and "." only.

    Args:
        uri: an absolute local path, or a URI such as s3://bucket/path?region=eu-central-1, gs://..., hdfs://...; credentials
            come from where the client of the file system looks for them.
        stored: whether the URI is that of a snapshot in a checkpoint, where one with a secret may be: it is used, and no
            message shows the secret.

    Raises:
        StateError: the URI is not valid, or may have a secret. Whether the folder exists shows with the first use.
    """

    def __init__(self, uri: str, stored: bool = False) -> None:
        self.uri = uri
        self._local = _local_path(uri)
        self._has_secret = False
        if self._local is None:
            try:
                _check_uri(uri)
            except _SecretError:
                if not stored:
                    raise
                self._has_secret = True

    @cached_property
    def _place(self) -> tuple[Any, str]:
        if self._local is not None:
            return fs.LocalFileSystem(), self._local
        from state_backends.durability.object_stores import file_system

        scheme, _, rest = self.uri.partition("://")
        try:
            address = f"{SCHEMES[scheme]}://{quote(rest, safe=_KEPT_IN_URIS)}"
            system, path = file_system(address, has_secret=self._has_secret)
        except (OSError, ValueError, ArrowException) as error:
            raise self._error(
                f"the folder {self.shown!r} cannot be used", error, f"; {_ACCEPTED}"
            ) from self._cause(error)
        return system, re.sub("/+", "/", path).rstrip("/")

    @property
    def shown(self) -> str:
        """The folder as messages show it: without the query of its URI."""
        return shown(self.uri)

    def _cause(self, error: Exception) -> Exception | None:
        """The error; none if it may show a secret."""
        return None if self._has_secret else error

    def _error(self, what: str, error: Exception, way_out: str) -> StateError:
        told = (
            self._cause(error)
            or f"{type(error).__name__}, whose text may show the secret in the folder's URI"
        )
        return StateError(f"{what}: {told}{way_out}")

    def _path(self, name: str) -> str:
        return f"{self._place[1]}/{name}"

    def where(self, name: str) -> str:
        """Return the path of the file, for messages."""
        base = self.shown if self._local is None else self._local
        return f"{base.rstrip('/')}/{name}"

    def write(self, name: str, data: bytes | Path) -> None:
        """Write a file, or replace it. A reader sees all of it or nothing.

        A local file is on the disk, under its name, when this returns; of other places, see docs/recovery.md.

        Args:
            name: the name of the file.
            data: its bytes, or the local file to copy.
        """
        system, _ = self._place
        target = self._path(name)
        whole = system.type_name in _WHOLE_AT_CLOSE
        aside = target if whole else f"{target}.{os.urandom(4).hex()}.part"

        def act() -> None:
            if not whole:
                self._make_parent(target)
            with io.BytesIO(data) if isinstance(data, bytes) else data.open("rb") as source:
                stream = system.open_output_stream(aside)
                complete = False
                try:
                    with stream as sink:
                        while chunk := source.read(_CHUNK):
                            sink.write(chunk)
                        complete = True
                    if not whole:
                        self._rename(aside, target)
                except BaseException:
                    # Closing creates a file of what was written so far, even in a store where files appear as a whole. There
                    # one that was given all bytes is whole if it exists: its answer was lost, and others may use it by now.
                    if not (whole and complete):
                        with suppress(OSError):
                            system.delete_file(aside)
                    raise

        self._do(f"write {self.where(name)}", act)

    def copy(self, source: str, target: str) -> bool:
        """Have the storage copy a file, so that its bytes are not sent again; return whether it did.

        A local file gets a second name. HDFS cannot copy.
        """
        system, _ = self._place
        try:
            if self._local is None:
                system.copy_file(self._path(source), self._path(target))
            else:
                os.link(self._path(source), self._path(target), follow_symlinks=False)
                sync_folder(self._path(target).rpartition("/")[0])
        except (OSError, ArrowException, NotImplementedError) as error:
            _LOG.debug("cannot copy %s: %s", self.where(source), self._cause(error))
            return False
        return True

    def _make_parent(self, target: str) -> None:
        parent = target.rpartition("/")[0]
        if self._local is None:
            self._place[0].create_dir(parent, recursive=True)
        else:
            make_folder(Path(parent))

    def _rename(self, aside: str, target: str) -> None:
        if self._local is not None:
            sync_file(aside)
        self._place[0].move(aside, target)
        if self._local is not None:
            sync_folder(target.rpartition("/")[0])

    def read(self, name: str, expected: int | None = None) -> bytes | None:
        """Return a file's bytes, or None if it does not exist. For small files: one of more than 256 MiB is an error.

        Args:
            name: the name of the file.
            expected: how many bytes the file should have. Of a longer one, one byte more is read.
        """

        def act() -> bytes | None:
            if (opened := self._opened(name)) is None:
                return None
            with opened as source:
                size = source.size() if expected is None else min(source.size(), expected + 1)
                if size > MOST_BYTES:
                    raise OSError(f"it has {size} bytes, and no file of this kind has more than {MOST_BYTES}")
                return bytes(source.read(size))

        return self._do(f"read {self.where(name)}", act)

    def fetch(self, name: str, target: Path, expected: int, seen: Callable[[bytes], None]) -> bool:
        """Copy a file to a local one, and pass its bytes to `seen`; return False if it does not exist.

        Args:
            name: the name of the file.
            target: the local file.
            expected: how many bytes the file should have. Of a longer one, one byte more is copied.
            seen: is called with all bytes that are copied.
        """

        def act() -> bool:
            if (opened := self._opened(name)) is None:
                return False
            with opened as source, target.open("wb") as sink:
                left = expected + 1
                while chunk := source.read(min(_CHUNK, left)):
                    left -= len(chunk)
                    seen(chunk)
                    sink.write(chunk)
            return True

        return self._do(f"read {self.where(name)} into {target}", act)

    def _opened(self, name: str) -> Any:
        """Open a file to be read, or return None if it does not exist. A store is asked only once if it does."""
        system, _ = self._place
        try:
            return system.open_input_file(self._path(name))
        except OSError:
            if system.get_file_info(self._path(name)).type != fs.FileType.File:
                return None
            raise

    def has(self, name: str) -> bool:
        """Return whether there is a file of that name."""
        system, _ = self._place
        return self._do(
            f"look for {self.where(name)}",
            lambda: system.get_file_info(self._path(name)).type == fs.FileType.File,
        )

    def confirm(self, name: str) -> None:
        """Wait until the name of a local file that another process wrote is on the disk. Its bytes were before it had it."""
        if self._local is not None:
            parent = self._path(name).rpartition("/")[0]
            self._do(f"sync the folder of {self.where(name)}", lambda: sync_folder(parent))

    def list(self, below: str) -> list["Listed"]:
        """Return the files below a name."""
        system, base = self._place
        selector = fs.FileSelector(self._path(below), allow_not_found=True, recursive=True)
        infos = self._do(f"list {self.where(below)}", lambda: system.get_file_info(selector))
        return [
            Listed(info.path.removeprefix(base).lstrip("/"), info.mtime, info.size)
            for info in infos
            if info.type == fs.FileType.File
        ]

    def is_linked(self, name: str) -> bool:
        """Return whether a local file, or a folder that it is in, is a link. There are none elsewhere."""
        if self._local is None:
            return False
        parts = name.split("/")
        return any(Path(self._local, *parts[: n + 1]).is_symlink() for n in range(len(parts)))

    def remove(self, name: str) -> None:
        """Remove a file if it is there."""
        system, _ = self._place

        def act() -> None:
            try:
                system.delete_file(self._path(name))
            except OSError:
                if system.get_file_info(self._path(name)).type == fs.FileType.File:
                    raise

        self._do(f"remove {self.where(name)}", act)

    def why_not_writable(self, seconds: float) -> str | None:
        """Return why no file can be written here and removed again; None if one can.

        Args:
            seconds: how long to wait for the storage: its clients retry for minutes.
        """
        failed: list[StateError] = []

        def probe() -> None:
            name = f"probe-{os.urandom(8).hex()}"
            try:
                self.write(name, b"")
                self.remove(name)
            except StateError as error:
                failed.append(error)

        thread = Thread(target=probe, name="probe", daemon=True)
        thread.start()
        thread.join(seconds)
        if thread.is_alive():
            return f"no answer within {seconds:g} s"
        return str(failed[0].__cause__ or failed[0]) if failed else None

    def _do(self, what: str, act: Callable[[], T]) -> T:
        """Act; raise an error of the storage as one that says what failed."""
        try:
            return act()
        except (OSError, ArrowException) as error:
            way_out = ". No state is lost: restart the query when the storage is available"
            raise self._error(f"cannot {what}", error, way_out) from self._cause(error)


def _local_path(uri: str) -> str | None:
    """The path on this machine, or None for another place."""
    path = uri
    if uri.startswith("file:"):
        if re.search("[?#]", uri):
            raise StateError(
                f"the folder {uri!r} contains ? or #: write them as %3F and %23, or give a plain path"
            )
        host, slash, rest = re.sub("^//", "", uri.removeprefix("file:")).partition("/")
        path = slash + unquote(rest) if host in ("", "localhost") else host
    elif "://" in uri:
        return None
    if not path.startswith("/"):
        # Each worker would resolve it against its working directory.
        raise StateError(f"the folder {shown(uri)!r} is not absolute: {_ACCEPTED}")
    return "/" + os.path.normpath(path).lstrip("/")


class _SecretError(StateError):
    """The URI may have a secret."""


def _check_uri(uri: str) -> None:
    """Refuse an invalid URI, without a call to the storage."""
    scheme, _, rest = uri.partition("://")
    told = f"the folder {shown(uri)!r}"
    if has_password(uri):
        refused = _SecretError if scheme in SCHEMES else StateError
        raise refused(
            f"{told} contains a password or a user, which checkpoints and logs would show: remove it, and provide "
            "credentials as the client of the storage expects them, for example in environment variables. If there is none, "
            "choose a folder whose path has no colon before an @"
        )
    if scheme not in SCHEMES:
        raise StateError(f"{told} has an unknown scheme: {_ACCEPTED}")
    if "#" in rest:
        raise StateError(f"the folder {shown(uri) + '#...'!r} contains #: write it as %23")
    if not re.split("[/?]", rest, maxsplit=1)[0] and SCHEMES[scheme] in ("s3", "gs"):
        raise StateError(f"{told} has no bucket: {_ACCEPTED}")
    if has_unknown_settings(uri):
        raise _SecretError(
            f"{told} has a query with other names than {', '.join(SETTINGS[SCHEMES[scheme]])}, or with a user or password in a "
            "value; checkpoints and logs would show a secret in it: remove it, and provide credentials as the client of the "
            "storage expects them, for example in environment variables"
        )
