"""What a folder is worth after a power loss: which batches it has, whole, or what is wrong with it."""

import shutil
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from state_backends import StateError
from state_backends.durability.folders import Folder
from state_backends.durability.pointer import Pointer, read_pointer
from state_backends.durability.snapshots import SnapshotFolder
from state_backends.sqlite_journal import SqliteJournal
from tests.power.disk import Tree
from tests.power.work import OPERATOR, Scene, batch, expected, rows_of


@dataclass(frozen=True)
class Verdict:
    """What was found.

    Attributes:
        batches: how many batches the state has.
        saved: the savepoints that are whole, by their number of batches.
        wrong: what must not be.
    """

    batches: int
    saved: frozenset[int]
    wrong: tuple[str, ...] = ()

    def faults(self, marked: list[str], *, waits: bool) -> list[str]:
        """Return what is wrong if the process had written these marks."""
        done = [int(mark.split()[1]) for mark in marked if mark.startswith("committed")]
        last = done[-1] if done else 0
        found = list(self.wrong)
        if waits and self.batches < last:
            found.append(f"batch {last} had returned, and the state has {self.batches}")
        if self.batches > last + 1:
            found.append(f"the state has {self.batches} batches, of {last} and one")
        saved = {int(mark.split()[1]) for mark in marked if mark.startswith("saved")}
        return found + [f"the savepoint {one} is lost" for one in sorted(saved - self.saved)]


def lay_out(tree: Tree, place: Path) -> None:
    """Make a folder what a disk has."""
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    for name, data in tree.items():  # Folders come before what is in them.
        if data is None:
            (place / name).mkdir()
        else:
            (place / name).write_bytes(data)


def judge(scene: Scene, place: Path) -> Verdict:
    """Open the state and the savepoints of a folder, and compare them with those of an undisturbed run."""
    wrong: list[str] = []
    batches, saved = 0, set[int]()
    try:
        pointer = _pointer(place)
        if pointer is not None:
            batches = pointer.number
            _fetch(pointer, place / "fetched")
        wrong += _continued(scene, place, batches)
    except Exception as error:  # noqa: BLE001 - whatever it is, the state does not open
        wrong.append(f"{type(error).__name__}: {error}")
    for folder in sorted((place / "saved").glob("*")):
        try:
            wrong += _started(scene, folder)
            saved.add(int(folder.name))
        except StateError as error:
            if "contains no savepoint" not in str(error):
                wrong.append(f"savepoint {folder.name}: {error}")
        except Exception as error:  # noqa: BLE001 - a savepoint that is there is whole
            wrong.append(f"savepoint {folder.name}: {type(error).__name__}: {error}")
    return Verdict(batches, frozenset(saved), tuple(wrong))


def _pointer(place: Path) -> Pointer | None:
    """The pointer, whose number is that of the batches: each of them changes something."""
    path = place / "state" / "journal"
    if not path.exists():
        return None
    with closing(SqliteJournal(path)) as journal:
        return read_pointer(journal)


def _fetch(pointer: Pointer, to: Path) -> None:
    """Fetch the snapshots of a pointer. Each has to be whole, though the state may be restored without it."""
    for snapshot in pointer.snapshots:
        if snapshot.name:
            folder = SnapshotFolder(Folder(snapshot.folder), pointer.store_id)
            folder.fetch(folder.manifest(snapshot.name), to)


def _continued(scene: Scene, place: Path, batches: int) -> Iterator[str]:
    with scene.runner(place) as runner:
        rows = rows_of(runner.process(batch(scene, batches)))
        if (rows, rows_of(runner.open_windows())) != expected(scene)[batches]:
            yield f"WRONG ROWS after {batches} batches"


def _started(scene: Scene, folder: Path) -> Iterator[str]:
    number = int(folder.name)
    with OPERATOR.local_runner("at", None, None, {"state.savepoint": str(folder)}) as runner:
        rows = rows_of(runner.process(batch(scene, number)))
        if (rows, rows_of(runner.open_windows())) != expected(scene)[number]:
            yield f"WRONG ROWS from the savepoint {number}"
