"""Small checkpoints of which a byte is damaged: a part of what `python -m tests.faults.everybyte` tries."""

import random
from pathlib import Path

import pytest

from tests.faults.everybyte import EveryByte, Scene, damaged, every_case, scenes

SAMPLE = 40


@pytest.fixture(scope="module")
def every_scene(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Scene]:
    """A checkpoint of each backend, and a savepoint."""
    return {scene.name: scene for scene in scenes(tmp_path_factory.mktemp("scenes"))}


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        *(
            f"{backend}, snapshots in the {kind}"
            for backend in ("memory", "rocksdb")
            for kind in ("folder", "journal")
        ),
        "spark, snapshots in the journal",
        "rocksdb, the local copy, folder",
        "rocksdb, the local copy, journal",
        "savepoint",
    ],
)
def test_a_damaged_byte_gives_an_error_or_the_right_rows(
    name: str, every_scene: dict[str, Scene], tmp_path: Path, seed: int
) -> None:
    """Whichever byte of whichever file is damaged, no row is wrong, and an error says where the damage is."""
    scene = every_scene[name]
    torment = EveryByte(scene, tmp_path / "copy")
    torment.run(random.Random(seed).sample(every_case(scene), SAMPLE))
    assert not torment.failures
    assert torment.outcomes["refused"] or torment.outcomes["right"]


@pytest.mark.slow
def test_a_list_of_files_that_claims_to_be_of_a_recycled_log(
    every_scene: dict[str, Scene], tmp_path: Path
) -> None:
    """RocksDB would read such a list without end. The copy is rebuilt."""
    scene = every_scene["rocksdb, the local copy, journal"]
    path = next(path for path in scene.files() if path.name.startswith("MANIFEST-"))
    data = path.read_bytes()
    cases = [
        (path, "flipped", at)
        for at in range(len(data))
        if damaged(data, "flipped", at)[at] == 5 and data[at] == 1
    ]
    torment = EveryByte(scene, tmp_path / "copy")
    torment.run(cases)
    assert cases
    assert not torment.failures


@pytest.mark.slow
def test_a_journal_without_its_pointer_is_not_a_new_one(
    every_scene: dict[str, Scene], tmp_path: Path
) -> None:
    """Where the name of the pointer is damaged, a runner does not begin with an empty state."""
    scene = every_scene["memory, snapshots in the journal"]
    path = next(path for path in scene.files() if path.name == "journal")
    data = path.read_bytes()
    cases, at = [], data.find(b"pointer")
    while at >= 0:
        cases += [(path, "flipped", at + n) for n in range(7)]
        at = data.find(b"pointer", at + 1)
    torment = EveryByte(scene, tmp_path / "copy")
    torment.run(cases)
    assert not torment.failures
    assert torment.outcomes["refused"]
