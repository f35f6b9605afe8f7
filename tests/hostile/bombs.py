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
import pyarrow.parquet as pq
import zstandard

from serializers import pack_value
from serializers.rows import RowCodec
from serializers.values import unpack_value
from state_backends.checkpoints.savepoint import saved_columns
from tests.hostile.seeds import LAYOUTS, folder, savepoint
from tests.hostile.targets import BOMB_ROWS, read_entry, read_manifest, read_saved, read_slots

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


def parquet(**options: object) -> bytes:
    """Return a file of a savepoint whose rows are all alike, and so in few bytes."""
    path = Path(folder(), "bomb.parquet")
    schema = saved_columns(savepoint().schema)
    part = pa.table([_same(field.type) for field in schema], schema=schema)
    with pq.ParquetWriter(path, schema, compression="zstd", **options) as writer:
        for _ in range(BOMB_ROWS // 1_000_000):
            writer.write_table(part, row_group_size=1_000_000)
    return path.read_bytes()


def saved_file(column: str, value: bytes, **options: object) -> bytes:
    """Return a file of a savepoint with the rows that its header claims, of which a column has one value."""
    path = Path(folder(), "bomb.parquet")
    table = pq.read_table(Path(folder(), "savepoint", savepoint().buckets[0].file))
    at = table.schema.get_field_index(column)
    values = pa.array([value] * table.num_rows, pa.binary())
    pq.write_table(table.set_column(at, table.schema.field(at), values), path, compression="zstd", **options)
    return path.read_bytes()


def _same(type_: pa.DataType) -> pa.Array:
    value = 0 if not pa.types.is_binary(type_) else b"x" * 50
    return pa.array([value], type_).take(pa.array(np.zeros(1_000_000, np.int64)))


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
    "parquet: rows all alike": (parquet, read_saved),
    "parquet: long pages": (lambda: saved_file("c3", bytes(GIB // 10), use_dictionary=False), read_saved),
    "parquet: a long value": (lambda: saved_file("c3", bytes(60 << 20)), read_saved),
    "parquet: values that share their beginning": (
        lambda: saved_file(
            "key", bytes(60 << 20), use_dictionary=False, column_encoding={"key": "DELTA_BYTE_ARRAY"}
        ),
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
