"""Files whose bytes are checked: small JSON files with their SHA-256 in the first line, and files that these name."""

import hashlib
import json
from pathlib import Path
from typing import Any

from serializers import CorruptDataError, NewerFormatError
from serializers.shapes import count, instance, refusing
from state_backends.durability.folders import Folder

_CHUNK = 4 << 20


def encode_signed(values: dict[str, Any], version: int) -> bytes:
    """Return the file's bytes.

    Args:
        values: its content, plain.
        version: the version of the format.
    """
    body = json.dumps({"format": version, **values}, indent=1, ensure_ascii=False).encode()
    return hashlib.sha256(body).hexdigest().encode() + b"\n" + body


def decode_signed(blob: bytes, version: int, what: str) -> dict[str, Any]:
    """Return the content that `encode_signed` wrote.

    Args:
        blob: the file's bytes.
        version: the version of the format that is understood.
        what: names the file in errors.

    Raises:
        CorruptDataError: it is truncated or altered.
        NewerFormatError: a newer version wrote it.
    """
    check, _, body = blob.partition(b"\n")
    if hashlib.sha256(body).hexdigest().encode() != check:
        raise CorruptDataError(f"{what} is truncated or altered, or was not written by this library")
    with refusing(what):
        values: dict[str, Any] = instance(dict, json.loads(body.decode()))
        found = count(values.pop("format"))
    if found > version:
        raise NewerFormatError(what, found, version)
    if found < version:
        raise CorruptDataError(f"{what} has format {found}, which no version of this library wrote")
    return values


def file_digest(path: Path) -> str:
    """Return the SHA-256 of a local file's bytes, in hex."""
    found = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            found.update(chunk)
    return found.hexdigest()


def fetch_checked(folder: Folder, name: str, target: Path, size: int, digest: str, what: str) -> None:
    """Copy a file of a folder to a local one, not more than it should have, and compare its SHA-256.

    Args:
        folder: where the file is.
        name: the name of the file.
        target: the local file.
        size: its bytes.
        digest: the SHA-256 of its bytes, in hex.
        what: names the file in errors.

    Raises:
        CorruptDataError: it is missing, truncated or altered.
    """
    found = hashlib.sha256()
    if not folder.fetch(name, target, size, found.update):
        raise CorruptDataError(f"{what} is missing")
    if found.hexdigest() != digest:
        raise CorruptDataError(f"{what} is truncated or altered")
