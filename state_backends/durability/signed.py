"""Small JSON files with a checksum: the SHA-256 of the rest in the first line."""

import hashlib
import json
from typing import Any

from serializers import CorruptDataError, NewerFormatError


def encode_signed(values: dict[str, Any], version: int) -> bytes:
    """Return the file's bytes.

    Args:
        values: its content, plain.
        version: of the format.
    """
    body = json.dumps({"format": version, **values}, indent=1, ensure_ascii=False).encode()
    return hashlib.sha256(body).hexdigest().encode() + b"\n" + body


def decode_signed(blob: bytes, version: int, what: str) -> dict[str, Any]:
    """Return the content that `encode_signed` wrote.

    Args:
        blob: the file's bytes.
        version: of the format that is understood.
        what: names the file in errors.

    Raises:
        CorruptDataError: it is truncated or altered.
        NewerFormatError: a newer version wrote it.
    """
    check, _, body = blob.partition(b"\n")
    if hashlib.sha256(body).hexdigest().encode() != check:
        raise CorruptDataError(f"{what} is truncated, altered, or none")
    values: dict[str, Any] = json.loads(body)
    found = values.pop("format", None)
    if found != version:
        raise NewerFormatError(what, found, version)
    return values
