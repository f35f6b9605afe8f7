"""Reads the headers of RocksDB's list of files, the MANIFEST, before RocksDB does.

RocksDB never comes back from a record that claims to be of a recycled log (type 5 or higher) behind others: it reports the
record and reads it again, without end. No time limit ends that. Where a header is zero, it goes on with the next block, in
silence, without what the rest of this block lists. It checks lengths and checksums itself.

A MANIFEST is a sequence of blocks of 32 KiB, a block a sequence of records: 4 bytes of checksum, 2 of length (little-endian), 1
of type, and the data. At the end of a block, where a header has no room, are zeros. Source: RocksDB's db/log_format.h.
"""

import re
from pathlib import Path

_NAME = re.compile(r"MANIFEST-[0-9]+")
_BLOCK = 32 << 10
_HEADER = 7
_RESERVED = 0
"""Space that is not written yet, which only the end of a file has."""
_TYPES = range(5)
"""1 to 4 are a whole record, and the first, a middle and the last part of one."""


def check_manifest(directory: Path) -> None:
    """Raise an error if RocksDB would not come back from reading this database's list of files, or read a part of it.

    Reads the whole file: kilobytes, as a rule.

    Raises:
        ValueError: a record has a type that no MANIFEST has, or zeros stand before other records.
    """
    try:
        name = (directory / "CURRENT").read_bytes().decode().strip()
        path = directory / name
        data = path.read_bytes() if _NAME.fullmatch(name) else b""
    except (OSError, ValueError):
        return  # A new database, or one that RocksDB refuses.
    for begin in range(0, len(data), _BLOCK):
        at, end = begin, min(begin + _BLOCK, len(data))
        while at + _HEADER <= end:
            length, kind = int.from_bytes(data[at + 4 : at + 6], "little"), data[at + 6]
            if kind not in _TYPES:
                raise ValueError(f"Corruption: {path.name} has a record of type {kind} at byte {at}")
            if kind == _RESERVED:
                if data[at:].strip(b"\0"):
                    raise ValueError(f"Corruption: {path.name} has zeros at byte {at}, before other records")
                return
            at += _HEADER + length
