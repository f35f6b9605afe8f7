"""Spark's own small files in a checkpoint: a damaged one is named, with the way out."""

import json
import re
from pathlib import Path

import pytest

from serializers import CorruptDataError
from state_backends.checkpoints.query import stored_query
from state_backends.checkpoints.spark_files import damaged_file
from tests.compatibility.archives import CHECKPOINTS, OF_SPARK_4_0, unpack

FILES = {
    "metadata": json.dumps({"id": "0f30f4c5-cbc5-4bb2-9df8-c0928720133f"}),
    "commits/0": 'v1\n{"nextBatchWatermarkMs":0}',
    "commits/9": 'v1\n{"nextBatchWatermarkMs":0}',
    "commits/10": 'v1\n{"nextBatchWatermarkMs":0}',
    "offsets/9": 'v1\n{"batchTimestampMs":1,"conf":{"a":"b"}}\n{"logOffset":8}\n-',
    "offsets/10": 'v1\n{"batchTimestampMs":1,"conf":{"a":"b"}}\n{"logOffset":9}\n-',
    "offsets/11": 'v1\n{"batchTimestampMs":1,"conf":{"a":"b"}}\n5\n-',
    "state/0/_metadata/metadata": 'v1\n{"operatorInfo":{"operatorId":0}}',
    "state/1/_metadata/v2/0": 'v2\n{"operatorInfo":{"operatorId":1}}',
}
READ = [name for name in FILES if name not in ("commits/0", "commits/9", "offsets/9")]
SAYS = {
    "metadata": "It has the id of the query.*write_savepoint",
    "commits/10": "batch 10 is done.*Spark then runs batch 10 again",
    "offsets/10": r"records batch 10 has.*batch=9\)",
    "offsets/11": r"records batch 11 has.*batch=10\)",
    "state/0/_metadata/metadata": "lists the operators with state.*new checkpoint",
    "state/1/_metadata/v2/0": "lists the operators with state.*new checkpoint",
}


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    """A checkpoint in whose last batch the query was stopped."""
    for name, text in FILES.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        (path.parent / f".{path.name}.crc").write_bytes(b"crc\0")
    return tmp_path


def test_files_of_spark_are_sound(checkpoint: Path) -> None:
    """Nothing is said of a checkpoint as Spark writes it, of a new one, and of a folder that is not there."""
    assert damaged_file(str(checkpoint)) is None
    assert damaged_file(f"file:{checkpoint}") is None
    assert damaged_file(str(checkpoint / "new")) is None


@pytest.mark.parametrize("damage", ["empty", "cut off", "altered", "one line"])
@pytest.mark.parametrize("name", READ)
def test_a_damaged_file_is_named(checkpoint: Path, name: str, damage: str) -> None:
    """Whatever its bytes have become, with what it is for and what to do without it."""
    path = checkpoint / name
    data = path.read_bytes()
    path.write_bytes(
        {
            "empty": b"",
            "cut off": data[: 2 * len(data) // 3],
            "altered": b"\xff" + data[1:],
            "one line": b"v1",
        }[damage]
    )
    told = damaged_file(str(checkpoint))
    assert told is not None
    assert told.startswith(
        f"Spark's file {name} in the checkpoint {checkpoint} is empty, cut off or altered. It "
    )
    assert re.search(SAYS[name], told)


def test_files_that_spark_does_not_read_are_left_alone(checkpoint: Path) -> None:
    """A query goes on from its last batch: earlier ones may be damaged."""
    for name in {*FILES} - {*READ}:
        (checkpoint / name).write_bytes(b"")
    assert damaged_file(str(checkpoint)) is None


def test_the_description_of_a_query_names_the_file(checkpoint: Path) -> None:
    """A savepoint of a batch has what Spark wrote of it: what is damaged is said by the same name."""
    assert stored_query(str(checkpoint)).batch == 10
    for name in ("metadata", "offsets/10"):
        path = checkpoint / name
        data = path.read_bytes()
        path.write_bytes(data[:-4])
        with pytest.raises(
            CorruptDataError, match=f"Spark's file {name} in the checkpoint .* is empty, cut off"
        ):
            stored_query(str(checkpoint))
        path.write_bytes(data)
    (checkpoint / "offsets" / "11").write_bytes(b"")
    assert stored_query(str(checkpoint)).batch == 10


@pytest.mark.parametrize("archives", [CHECKPOINTS, OF_SPARK_4_0], ids=["4.3", "4.0"])
def test_files_of_several_versions_of_spark_are_sound(archives: Path, tmp_path: Path) -> None:
    """No file of a query that ended well is taken for a damaged one, and those of operators are found."""
    operators = described = 0
    for archive in sorted(archives.glob("*.tar.gz")):
        folder = unpack(archive, tmp_path / archive.name)
        for commits in folder.rglob("commits"):
            checkpoint = commits.parent
            assert damaged_file(str(checkpoint)) is None
            kept = [
                *checkpoint.glob("state/*/_metadata/metadata"),
                *checkpoint.glob("state/*/_metadata/v*/*"),
            ]
            for file in [*kept, *checkpoint.glob("state/*/_stateSchema/*/*")]:
                whole = file.read_bytes()
                for damaged in (b"", whole[: len(whole) // 2], whole[:-1], whole.replace(b"}", b"]")):
                    file.write_bytes(damaged)
                    told = damaged_file(str(checkpoint))
                    assert told is not None
                    assert f"{file.parent.relative_to(checkpoint)}/{file.name} in" in told
                file.write_bytes(whole)
                described += "_stateSchema" in str(file)
            operators += len(kept)
    assert operators > 2
    assert described > 2
