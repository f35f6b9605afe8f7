"""Blobs: a value of any size, compressed, with its format's version and a checksum.

Layout: four bytes that name the format, version byte, CRC-32 as 4 bytes big-endian of the blob's name and the rest, then zstd
of the msgpack of the value. The name may be empty; with one, a blob is valid under its name only.

A blob is refused if it would unpack to more than 16 MiB and 256 times its own size. Of a value that is packed more tightly, the
zstd frame is followed by a skippable frame of zeros, which makes the blob large enough.
"""

import struct
import zlib
from dataclasses import dataclass
from typing import Any

import zstandard

from serializers.errors import CorruptDataError, NewerFormatError
from serializers.values import pack_value, unpack_value

_FREE_BYTES = 16 << 20
_MOST_TIMES = 256
_LARGEST_WINDOW = 8 << 20
"""Level 1 has windows of half a MiB; those of a frame in one piece are its content, and need no memory."""
_SKIPPABLE = struct.Struct("<II")
_SKIPPABLE_MAGIC = 0x184D2A50


@dataclass(frozen=True, slots=True)
class BlobFormat:
    """A format of blobs.

    Attributes:
        magic: the four bytes that name it.
        version: the version of the format.
    """

    magic: bytes
    version: int

    def encode(self, value: Any, name: str = "") -> bytes:
        """Return the blob of a value. O(bytes), about 400 MB/s."""
        packed = pack_value(value)
        body = _pad(zstandard.ZstdCompressor(level=1).compress(packed), len(packed))
        return self.magic + bytes([self.version]) + _checksum(name, body) + body

    def decode(self, blob: bytes, what: str, name: str = "") -> Any:
        """Return the value that `encode` was given.

        Args:
            blob: the bytes.
            what: names the blob in errors.
            name: as given to `encode`.

        Raises:
            CorruptDataError: the blob is truncated, altered, of another name or of another format.
            NewerFormatError: a newer version wrote it.
        """
        at = len(self.magic)
        if blob[:at] != self.magic:
            raise CorruptDataError(
                f"{what} was not written by this library: it has {len(blob)} bytes that begin with {blob[:8]!r}: "
                "go back to an earlier checkpoint"
            )
        version, check, body = blob[at : at + 1], blob[at + 1 : at + 5], blob[at + 5 :]
        if version > bytes([self.version]):
            raise NewerFormatError(what, version[0], self.version)
        if version < bytes([self.version]) or check != _checksum(name, body):
            raise CorruptDataError(
                f"{what} of {len(blob)} bytes is truncated or altered: go back to an earlier checkpoint"
            )
        return unpack_value(_unpack(body, what))


def _pad(body: bytes, size: int) -> bytes:
    """The frame, and what makes it large enough for a content of that size."""
    missing = -(-(size - _FREE_BYTES) // _MOST_TIMES) - len(body)
    if missing <= 0:
        return body
    return body + _SKIPPABLE.pack(_SKIPPABLE_MAGIC, missing) + bytes(missing)


def _unpack(body: bytes, what: str) -> bytes:
    """The content of the first frame. Its size is checked before memory is reserved for it."""
    try:
        size = zstandard.frame_content_size(body)
        if not 0 <= size <= _FREE_BYTES + _MOST_TIMES * len(body):
            raise CorruptDataError(
                f"{what} of {len(body)} bytes claims to have {size} bytes unpacked, more than this library writes: "
                "go back to an earlier checkpoint"
            )
        return zstandard.ZstdDecompressor(max_window_size=_LARGEST_WINDOW).decompress(body)
    except zstandard.ZstdError as error:
        raise CorruptDataError(f"{what} of {len(body)} bytes cannot be unpacked: {error}") from error


def _checksum(name: str, body: bytes) -> bytes:
    return zlib.crc32(body, zlib.crc32(name.encode())).to_bytes(4, "big")
