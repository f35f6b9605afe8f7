"""The disk that forgets."""

from tests.power.disk import UNIFORM, Chance, File, Folder, Naming, Uniform, Write, after
from tests.power.machine import Machine
from tests.power.trace import Call


def disk(*, synced: bool) -> tuple[Folder, File]:
    """A disk with a file, safe or not."""
    root, file = Folder(), File()
    root.change(Naming({"a": file}))
    file.change(Write(0, b"old"))
    if synced:
        root.end_sync(root.begin_sync())
        file.end_sync(file.begin_sync())
    return root, file


def test_nothing_is_left_of_what_was_not_synced() -> None:
    """Neither a name without the folder's sync, nor bytes without the file's."""
    root, file = disk(synced=False)
    assert after(root, Uniform("none", names=False)) == {}
    assert after(root, Uniform("none", names=True)) == {"a": b""}
    file.end_sync(file.begin_sync())
    assert after(root, Uniform("none", names=False)) == {}
    assert after(root, Uniform("none", names=True)) == {"a": b"old"}


def test_unsafe_bytes_may_be_there_in_part() -> None:
    """All of them, half of them, or zeros in their place."""
    root, file = disk(synced=True)
    file.change(Write(2, b"newer!"))
    left = {way.data: after(root, way)["a"] for way in UNIFORM if way.names}
    assert left == {"none": b"old", "all": b"olnewer!", "half": b"olnew", "zeros": b"ol\0\0\0\0\0\0"}


def test_sync_covers_what_was_written_before_it_began() -> None:
    """Bytes that are written meanwhile are not safe."""
    root, file = disk(synced=True)
    file.change(Write(3, b"er"))
    upto = file.begin_sync()
    file.change(Write(5, b"!"))
    file.end_sync(upto)
    assert after(root, Uniform("none", names=True)) == {"a": b"older"}
    file.end_sync(file.begin_sync())
    assert after(root, Uniform("none", names=True)) == {"a": b"older!"}
    assert not file.unsafe


def test_two_syncs_at_once_keep_each_change_once() -> None:
    """The sync that began first may end last."""
    _, file = disk(synced=True)
    file.change(Write(3, b"er"))
    first = file.begin_sync()
    file.change(Write(0, b"O"))
    second = file.begin_sync()
    file.end_sync(second)
    file.end_sync(first)
    assert (bytes(file.safe), file.unsafe) == (b"Older", [])


def test_size_is_a_change_like_another() -> None:
    """A file that is made shorter has its old end until it is synced; a longer one has zeros."""
    root, file = disk(synced=True)
    file.change(Write(1, None))
    file.change(Write(4, None))
    assert bytes(file.now) == b"o\0\0\0"
    assert after(root, Uniform("none", names=True)) == {"a": b"old"}
    file.end_sync(file.begin_sync())
    assert after(root, Uniform("none", names=True)) == {"a": b"o\0\0\0"}


def test_rename_happens_as_a_whole_or_not() -> None:
    """By chance too, a folder has the old name or the new one."""
    root, file = disk(synced=True)
    root.change(Naming({"a": None, "b": file}))
    trees = [after(root, Chance(seed)) for seed in range(50)]
    assert {tuple(tree) for tree in trees} == {("a",), ("b",)}
    root.end_sync(root.begin_sync())
    assert after(root, Chance(0)) == {"b": b"old"}


def test_folder_takes_what_is_in_it_along() -> None:
    """A safe file in a folder without a safe name is lost; folders that stay have their own names."""
    root, file = disk(synced=True)
    below = Folder()
    root.change(Naming({"below": below}))
    below.change(Naming({"c": file}))
    below.end_sync(below.begin_sync())
    assert after(root, Uniform("none", names=False)) == {"a": b"old"}
    assert after(root, Uniform("none", names=True)) == {"a": b"old", "below": None, "below/c": b"old"}


def test_chance_is_repeated_by_its_seed() -> None:
    """The same seed loses the same; other seeds lose in many ways."""
    root, file = disk(synced=True)
    for number in range(6):
        file.change(Write(3 + 2 * number, b"xy"))
    assert after(root, Chance(7)) == after(root, Chance(7))
    assert len({after(root, Chance(seed))["a"] for seed in range(100)}) > 10


def test_a_folder_that_another_thread_makes() -> None:
    """It can be used before the end of the call that made it is recorded; that end changes nothing any more."""
    machine = Machine("/place", "/marks")
    one, two = (quoted("/place/a"), "0777"), (quoted("/place/a/b"), "0777")
    for process, given, result in ((1, one, None), (2, two, None), (2, two, 0), (1, one, 0)):
        machine.run(Call(process, "mkdir", given, result))
    assert after(machine.root, Uniform("all", names=True)) == {"a": None, "a/b": None}


def quoted(text: str) -> str:
    """A text as strace prints it."""
    return '"' + "".join(f"\\x{byte:02x}" for byte in text.encode()) + '"'
