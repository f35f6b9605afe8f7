"""Blobs keep their layout, and are valid under their name and format only."""

import zlib

import pytest
import zstandard

from serializers import CorruptDataError, NewerFormatError, pack_value
from serializers.blobs import BlobFormat

FORMAT = BlobFormat(b"TEST", 3)


def test_layout() -> None:
    """Magic, version, checksum of name and body, body: each byte is part of the format."""
    body = zstandard.ZstdCompressor(level=1).compress(pack_value([1, b"x"]))
    check = zlib.crc32(b"name" + body).to_bytes(4, "big")
    assert b"TEST\x03" + check + body == FORMAT.encode([1, b"x"], "name")
    assert b"TEST\x03" + zlib.crc32(body).to_bytes(4, "big") + body == FORMAT.encode([1, b"x"])


def test_name_is_checked() -> None:
    """A blob under another name is refused, as is one without."""
    blob = FORMAT.encode("value", "one")
    assert "value" == FORMAT.decode(blob, "it", "one")
    for name in ("", "other"):
        with pytest.raises(CorruptDataError, match=r"it of .* bytes is truncated or altered"):
            FORMAT.decode(blob, "it", name)


def test_other_formats_and_versions_are_refused() -> None:
    """Another format is no blob of this one; a newer version says so, an older one is not guessed at."""
    with pytest.raises(CorruptDataError, match="it was not written by this library"):
        BlobFormat(b"TSET", 3).decode(FORMAT.encode(1), "it")
    with pytest.raises(NewerFormatError, match="it has format version 3; this version reads up to 2"):
        BlobFormat(b"TEST", 2).decode(FORMAT.encode(1), "it")
    with pytest.raises(CorruptDataError, match="truncated or altered"):
        BlobFormat(b"TEST", 4).decode(FORMAT.encode(1), "it")


def test_damage_is_refused() -> None:
    """A blob cut off at any length, or with one bit changed, is refused."""
    blob = FORMAT.encode([b"k" * 9, 2**40], "name")
    for length in range(len(blob)):
        with pytest.raises(CorruptDataError):
            FORMAT.decode(blob[:length], "it", "name")
    for bit in range(8 * len(blob)):
        changed = bytearray(blob)
        changed[bit >> 3] ^= 1 << (bit & 7)
        with pytest.raises((CorruptDataError, NewerFormatError)):
            FORMAT.decode(bytes(changed), "it", "name")


@pytest.mark.slow
def test_tight_values_are_readable() -> None:
    """A value that packs to next to nothing gets a blob large enough for it; without, it is refused."""
    value = bytes(40 << 20)
    blob = FORMAT.encode(value)
    assert value == FORMAT.decode(blob, "it")
    assert len(blob) > (24 << 20) // 256
    body = zstandard.ZstdCompressor(level=1).compress(pack_value(value))
    forged = b"TEST\x03" + zlib.crc32(body).to_bytes(4, "big") + body
    with pytest.raises(
        CorruptDataError, match=f"it of {len(body)} bytes claims to have 41943045 bytes unpacked"
    ):
        FORMAT.decode(forged, "it")
