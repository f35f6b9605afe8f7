"""Few bytes that ask for much memory, with checksums that are right."""

import hashlib
import struct
import subprocess
import sys
import tempfile
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import zstandard

from serializers import pack_value
from serializers.rows import RowCodec
from serializers.values import unpack_value
from tests.hostile.seeds import LAYOUTS
from tests.hostile.targets import read_entry, read_manifest, read_saved, read_slots

ROOT = Path(__file__).parents[2]
GIB = 1 << 30


def blob(body: bytes, magic: bytes = b"SWCL", name: str = "") -> bytes:
    """Return a blob of these bytes after its checksum."""
    return magic + b"\x01" + zlib.crc32(body, zlib.crc32(name.encode())).to_bytes(4, "big") + body


def entry(body: bytes) -> bytes:
    """Return a changelog entry with such a blob."""
    versions = bytes(16) + (1).to_bytes(8, "big") + b"12345678"
    return versions + zlib.crc32(versions).to_bytes(4, "big") + blob(body)


def zeros(size: int, **parameters: int) -> bytes:
    """Return a zstd frame of so many zeros."""
    made = zstandard.ZstdCompressor(
        compression_params=zstandard.ZstdCompressionParameters.from_level(1, **parameters)
    ).compressobj(size)
    chunk = bytes(1 << 24)
    return b"".join([made.compress(chunk) for _ in range(size >> 24)]) + made.flush()


def lying(size: int) -> bytes:
    """Return a zstd frame that claims to have another size."""
    frame = bytearray(zstandard.ZstdCompressor(level=1).compress(bytes(100_000)))
    assert frame[4] & 0xE0 == 0xA0, "the size has four bytes"
    frame[5:9] = size.to_bytes(4, "little")
    return bytes(frame)


def endless() -> bytes:
    """Return a zstd frame without a size."""
    made = zstandard.ZstdCompressor(level=1).compressobj()
    return made.compress(bytes(1 << 26)) + made.flush()


def nested(header: bytes, count: int) -> bytes:
    """Return msgpack whose containers are in one another, each claiming as many items as there are bytes."""
    return (header + struct.pack(">I", count)) * 1_000 + bytes(count - 5_000)


def page(rows: int, tail: int) -> bytes:
    """Return the header of a page that claims so many rows, and so long a tail."""
    head = np.array([rows << 32 | 1 << 16 | 0x5057, tail << 32 | LAYOUTS[1].fingerprint, 0], "<u8")
    return head.tobytes() + bytes(64)


def signed(body: bytes) -> bytes:
    """Return a signed file."""
    return hashlib.sha256(body).hexdigest().encode() + b"\n" + body


def saved_file(body: bytes) -> bytes:
    """Return a file of a savepoint."""
    return blob(body, b"SWSP")


def rows(count: int) -> bytes:
    """Return the header of a blob of rows."""
    return struct.pack("<BI", 1, count)


def index(content: bytes) -> bytes:
    """Return an index of such a content."""
    return blob(content, b"SWJB", "index")


def read_index(data: bytes) -> object:
    """Read a journal with that index."""
    return read_slots("index", data)


NOTHING = RowCodec(pa.schema([("nothing", pa.null())]))
NUMBERS = RowCodec(pa.schema([("n", pa.int64())]))
DEEP = zstandard.compress(pack_value([b"v", [[0, 45, 1, 1, b"\xff"]]]))
BOMBS: dict[str, tuple[Callable[[], bytes], Callable[[bytes], object]]] = {
    "zstd: 2 GiB of zeros": (lambda: entry(zeros(2 * GIB)), read_entry),
    "zstd: a size that is a lie": (lambda: entry(lying(2**32 - 1)), read_entry),
    "zstd: no size": (lambda: entry(endless()), read_entry),
    "zstd: a long window": (lambda: entry(zeros(GIB // 4, window_log=28)[:-3] + bytes(1 << 20)), read_entry),
    "zstd: an index": (lambda: index(zeros(GIB // 4)), read_index),
    "msgpack: arrays in arrays": (lambda: nested(b"\xdd", 2_000_000), unpack_value),
    "msgpack: maps in maps": (lambda: nested(b"\xdf", 2_000_000), unpack_value),
    "msgpack: one large array": (lambda: b"\xdd\xff\xff\xff\xff", unpack_value),
    "msgpack: text": (lambda: b"\xdb\xff\xff\xff\xff", unpack_value),
    "msgpack: bytes": (lambda: b"\xc6\xff\xff\xff\xff", unpack_value),
    "msgpack: an extension": (lambda: b"\xc9\xff\xff\xff\xff\x06", unpack_value),
    "msgpack: a decimal": (lambda: b"\xc7\x0c\x041E+999999999", lambda data: int(unpack_value(data))),
    "page: rows": (lambda: page(2**32 - 1, 0), lambda data: LAYOUTS[1].decode([data])),
    "page: tail": (lambda: page(1, 2**32 - 1), lambda data: LAYOUTS[1].decode([data])),
    "rows: any number without bytes": (lambda: rows(2**32 - 1), lambda data: NOTHING.decode([data] * 3)),
    "rows: a count": (lambda: rows(2**32 - 1), lambda data: NUMBERS.decode([data])),
    "index: a deep segment": (lambda: index(DEEP), read_index),
    "json: lists in lists": (lambda: signed(b"[" * 1_000_000), read_manifest),
    "json: digits": (lambda: signed(b'{"format": ' + b"9" * 1_000_000 + b"}"), read_manifest),
    "savepoint: 2 GiB of zeros": (lambda: saved_file(zeros(2 * GIB)), read_saved),
    "savepoint: a size that is a lie": (lambda: saved_file(lying(2**32 - 1)), read_saved),
    "savepoint: pages that are all alike": (
        lambda: saved_file(zstandard.compress(pack_value([[b"k"] * 10**6, [page(2**32 - 1, 0)] * 10**6]))),
        read_saved,
    ),
}
"""Of each, how it is made, which may take memory, and what reads it."""


def made() -> dict[str, bytes]:
    """Return the bytes of all, made by another process."""
    with tempfile.TemporaryDirectory(prefix="hostile-bombs-") as place:
        subprocess.run([sys.executable, "-m", "tests.hostile.bombs", place], check=True, cwd=ROOT)
        return {name: Path(place, str(number)).read_bytes() for number, name in enumerate(BOMBS)}


if __name__ == "__main__":
    for number, (make, _) in enumerate(BOMBS.values()):
        Path(sys.argv[1], str(number)).write_bytes(make())
