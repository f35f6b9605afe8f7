"""Bytes with other content, and with checksums that are right again."""

import hashlib
import random
import zlib

import numpy as np
import zstandard

from serializers import PageLayout
from tests.hostile.mutate import Change, mutated, packed, written


def sealed_blob(at: int, name: str) -> Change:
    """Return what forges the blobs of a format.

    Args:
        at: bytes before its checksum.
        name: of the blob.
    """

    def forge(rng: random.Random, blob: bytes) -> bytes:
        body = blob[at + 4 :]
        content = zstandard.ZstdDecompressor().decompress(body)
        forged = zstandard.ZstdCompressor(level=1).compress(packed(rng, content))
        body = forged if rng.randrange(4) else mutated(rng, body)
        return blob[:at] + zlib.crc32(body, zlib.crc32(name.encode())).to_bytes(4, "big") + body

    return forge


def forge_entry(rng: random.Random, blob: bytes) -> bytes:
    """Return a changelog entry with other versions or other changes."""
    if rng.randrange(3):
        return blob[:36] + sealed_blob(5, "")(rng, blob[36:])
    versions = mutated(rng, blob[:32]).ljust(32)[:32]
    return versions + zlib.crc32(versions).to_bytes(4, "big") + blob[36:]


def forge_signed(rng: random.Random, blob: bytes) -> bytes:
    """Return a signed file with other content."""
    body = blob.partition(b"\n")[2]
    body = written(rng, body) if rng.randrange(4) else mutated(rng, body)
    return hashlib.sha256(body).hexdigest().encode() + b"\n" + body


def forge_pointer(rng: random.Random, blob: bytes) -> bytes:
    """Return a pointer with other fields, and with a checksum or without."""
    blob = blob[:1] + packed(rng, blob[1:])
    return blob[:-4] + zlib.crc32(blob[:-4]).to_bytes(4, "big") if rng.randrange(8) else blob


def forge_page(layout: PageLayout) -> Change:
    """Return what changes a page's words or objects, and makes its checksum right."""

    def forge(rng: random.Random, page: bytes) -> bytes:
        columns, counts = layout.decode([page])
        rows = int(counts[0])
        (again,) = layout.encode(columns, counts)
        edge = len(again) if "object" not in layout.codes else (rows + 1) * 8 * layout.width
        tail = packed(rng, again[edge:]) if edge < len(again) else b""
        body = mutated(rng, again[24:edge]) if rng.randrange(2) else again[24:edge]
        return _sealed_page(layout, again[:24] + body, tail)

    return forge


def _sealed_page(layout: PageLayout, page: bytes, tail: bytes) -> bytes:
    """The page with the length of its tail, and its checksum."""
    width = layout.width
    page = page[: len(page) // (8 * width) * 8 * width].ljust(8 * width, b"\0")
    head = np.frombuffer(page[:16], "<u8").copy()
    head[1] = (len(tail) << 32) | layout.fingerprint
    body = np.frombuffer(page[8 * width :], "<u8")
    words = body.reshape(-1, width)
    used = sum(code != "object" for code in layout.codes)
    weights = 2 * np.arange(width, dtype="<u8") + 1
    with np.errstate(over="ignore"):
        total = (words[:, :used] * weights[:used]).sum(dtype="<u8") + head[0] + head[1] * np.uint64(3)
        total += np.uint64(zlib.crc32(tail) if "object" in layout.codes else 0)
    return head.tobytes() + np.uint64(total).tobytes() + page[24:] + tail


def forge_key(rng: random.Random, key: bytes) -> bytes:
    """Return a key with other values."""
    return key[:1] + packed(rng, key[1:])


def forge_lines(rng: random.Random, blob: bytes) -> bytes:
    """Return lines with one value of a line of JSON replaced."""
    lines = blob.split(b"\n")
    at = rng.choice([number for number, line in enumerate(lines) if line.startswith(b"{")])
    return b"\n".join([*lines[:at], written(rng, lines[at]), *lines[at + 1 :]])


def forge_value(rng: random.Random, data: bytes) -> bytes:
    """Return a value with another in it."""
    return packed(rng, data)
