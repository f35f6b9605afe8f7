"""Folders of stored queries as small archives, the same bytes for the same content, which open in any folder."""

import gzip
import io
import tarfile
from pathlib import Path

CHECKPOINTS = Path(__file__).parent / "checkpoints"
"""The first set, of Spark 4.3."""
OF_SPARK_4_0 = CHECKPOINTS / "spark-4.0"
"""The second set: some of the first set's queries."""
REQUESTS = CHECKPOINTS / "requests"
"""A folder of requests to forget keys."""
_LEFT_OUT = ("local", "stored", "later")
"""Local copies, which Spark's workers make anew, and the input."""
_FOLDER = "/folder-of-the-query"
"""Stands for the folder in Spark's own files, which hold absolute paths."""


def pack(folder: Path, archive: Path) -> None:
    """Write a folder into an archive, without what a query does not need to go on."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        for path in sorted(folder.rglob("*")):
            name = path.relative_to(folder)
            if path.is_file() and _is_needed(name):
                content = path.read_bytes()
                if _has_paths(name):
                    content = content.replace(str(folder).encode(), _FOLDER.encode())
                entry = tarfile.TarInfo(str(name))
                entry.size = len(content)
                tar.addfile(entry, io.BytesIO(content))
    archive.write_bytes(gzip.compress(buffer.getvalue(), mtime=0))


def unpack(archive: Path, folder: Path) -> Path:
    """Write an archive's files into a folder, and return that."""
    with tarfile.open(archive) as tar:
        for entry in tar:
            file = tar.extractfile(entry)
            content = b"" if file is None else file.read()
            if _has_paths(Path(entry.name)):
                content = content.replace(_FOLDER.encode(), str(folder).encode())
            path = folder / entry.name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
    return folder


def _is_needed(name: Path) -> bool:
    """Whether a query needs a file: no checksums, which Spark does without, and no texts of RocksDB's log."""
    return name.suffix != ".crc" and name.parts[0] not in _LEFT_OUT and name.name != "LOG"


def _has_paths(name: Path) -> bool:
    """Whether a file is one of Spark's that hold absolute paths: where states' schemas are, and what was read."""
    return name.parts[0] == "checkpoint" and ("_metadata" in name.parts or "sources" in name.parts)
