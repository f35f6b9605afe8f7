"""Which files have the bytes of a key: as they are, in frames of Zstandard, and in zip files."""

import contextlib
import io
import os
import zipfile
from collections.abc import Iterator
from pathlib import Path

import zstandard


def holding(folder: Path, key: str) -> list[str]:
    """Return the files below a folder that have the bytes of a key; files that are deleted meanwhile are left out."""
    found = []
    for place, _, files in os.walk(folder):
        for path in (Path(place, file) for file in files):
            with contextlib.suppress(FileNotFoundError):
                if any(key.encode() in part for part in contents(path.read_bytes())):
                    found.append(str(path.relative_to(folder)))
    return sorted(found)


def contents(blob: bytes) -> Iterator[bytes]:
    """Yield bytes as they are, and what each frame of Zstandard and each file of a zip in them holds."""
    yield blob
    if blob.startswith(b"PK"):
        with contextlib.suppress(zipfile.BadZipFile), zipfile.ZipFile(io.BytesIO(blob)) as archive:
            for name in archive.namelist():
                yield from contents(archive.read(name))
    at = blob.find(zstandard.FRAME_HEADER)
    while at >= 0:
        with contextlib.suppress(zstandard.ZstdError):
            inner = zstandard.ZstdDecompressor().decompressobj().decompress(blob[at:])
            # A file of Spark's changelog is one frame, with blobs of ours in it.
            yield from contents(inner) if at == 0 else (inner,)
        at = blob.find(zstandard.FRAME_HEADER, at + 4)
