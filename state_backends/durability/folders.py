"""A folder for snapshots and savepoints, on any file system that Arrow knows: local, S3, GCS, HDFS."""

import os
from collections.abc import Callable
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

from pyarrow import fs

from state_backends.interface import StateError

_WHOLE_AT_CLOSE = ("s3", "gcs", "abfs")
"""Stores where a file appears as a whole or not at all."""
_CHUNK = 4 << 20
_SCHEMES = {"s3a": "s3", "s3n": "s3", "gs": "gs"}
T = TypeVar("T")


class Folder:
    """Files by name below one URI. Names may have slashes; they are made of letters, digits, "-", "_" and "." only.

    Args:
        uri: an absolute local path, or a URI such as s3://bucket/path?region=eu-central-1, gs://..., hdfs://...; credentials
            come from where the file system's own client looks for them.
    """

    def __init__(self, uri: str) -> None:
        self.uri = uri

    @cached_property
    def _place(self) -> tuple[Any, str]:
        scheme, colon, rest = self.uri.partition("://")
        if not colon:
            return fs.LocalFileSystem(), os.path.abspath(self.uri.removeprefix("file:"))  # noqa: PTH100
        try:
            system, path = fs.FileSystem.from_uri(f"{_SCHEMES.get(scheme, scheme)}://{rest}")
        except (OSError, ValueError, NotImplementedError) as error:
            raise StateError(
                f"the folder {self.uri!r} cannot be used: {error}. A local path or a URI of s3, gs or hdfs is wanted"
            ) from error
        return system, path.rstrip("/")

    def _path(self, name: str) -> str:
        return f"{self._place[1]}/{name}"

    def where(self, name: str) -> str:
        """Return the file's place for people."""
        return f"{self.uri.partition('?')[0].rstrip('/')}/{name}"

    def write(self, name: str, data: bytes | Path) -> None:
        """Write a file as a whole: whoever sees the name sees all of it. Over an earlier one of that name.

        Args:
            name: of the file.
            data: its bytes, or the local file to copy.
        """
        system, _ = self._place
        target = self._path(name)
        whole = system.type_name in _WHOLE_AT_CLOSE
        aside = target if whole else f"{target}.{os.urandom(4).hex()}.part"

        def act() -> None:
            if not whole:
                system.create_dir(target.rpartition("/")[0], recursive=True)
            with system.open_output_stream(aside) as sink:
                if isinstance(data, bytes):
                    sink.write(data)
                else:
                    with data.open("rb") as source:
                        while chunk := source.read(_CHUNK):
                            sink.write(chunk)
            if not whole:
                system.move(aside, target)

        self._do(f"write {self.where(name)}", act)

    def read(self, name: str) -> bytes | None:
        """Return a file's bytes, or None if there is none of that name."""
        system, _ = self._place

        def act() -> bytes | None:
            if system.get_file_info(self._path(name)).type != fs.FileType.File:
                return None
            with system.open_input_stream(self._path(name)) as source:
                return source.read()

        return self._do(f"read {self.where(name)}", act)

    def fetch(self, name: str, target: Path, seen: Callable[[bytes], None]) -> bool:
        """Copy a file to a local one, showing its bytes as they come by; False if there is none of that name."""
        system, _ = self._place

        def act() -> bool:
            if system.get_file_info(self._path(name)).type != fs.FileType.File:
                return False
            with system.open_input_stream(self._path(name)) as source, target.open("wb") as sink:
                while chunk := source.read(_CHUNK):
                    seen(chunk)
                    sink.write(chunk)
            return True

        return self._do(f"read {self.where(name)}", act)

    def has(self, name: str) -> bool:
        """Return whether there is a file of that name."""
        system, _ = self._place
        return self._do(
            f"look for {self.where(name)}",
            lambda: system.get_file_info(self._path(name)).type == fs.FileType.File,
        )

    def list(self, below: str) -> list[tuple[str, datetime | None]]:
        """Return the files below a name, with the time when each was last written."""
        system, base = self._place
        selector = fs.FileSelector(self._path(below), allow_not_found=True, recursive=True)
        infos = self._do(f"list {self.where(below)}", lambda: system.get_file_info(selector))
        return [
            (info.path.removeprefix(base).lstrip("/"), info.mtime)
            for info in infos
            if info.type == fs.FileType.File
        ]

    def remove(self, name: str) -> None:
        """Remove a file if it is there."""
        system, _ = self._place

        def act() -> None:
            if system.get_file_info(self._path(name)).type == fs.FileType.File:
                system.delete_file(self._path(name))

        self._do(f"remove {self.where(name)}", act)

    def _do(self, what: str, act: Callable[[], T]) -> T:
        """Act; tell an error of the storage as what it kept from being done."""
        try:
            return act()
        except OSError as error:
            raise StateError(
                f"cannot {what}: {error}. If the storage is back, start the query again; nothing was lost"
            ) from error
