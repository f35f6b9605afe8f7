"""What calls do to a disk: a machine that repeats what another process did."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from tests.power.disk import File, Folder, Naming, Node, Write
from tests.power.trace import Call, data_of

# 0x40c says how long the data will live.
_HARMLESS_FCNTL = ("F_GETFD", "F_SETFD", "F_GETFL", "F_SETFL", "F_GETLK", "F_SETLK", "F_OFD", "0x40c")
_HARMLESS = {"ioctl", "chdir", "fchdir", "msync", "sync_file_range"}
SYNCS = ("fsync", "fdatasync")
_PIECE = re.compile(r'iov_base=("[^"]*"), iov_len=')


class UnknownCallError(Exception):
    """A call did something to the files that the machine cannot repeat."""


@dataclass
class Opened:
    """An open file or folder."""

    node: Node | None
    at: int = 0
    appends: bool = False


@dataclass
class Machine:
    """Repeats calls on the files below one folder.

    Attributes:
        root: the folder, at first empty and safe.
        path: where the traced process had it.
        marks: path of a file outside it, to which the process wrote what it had done.
        marked: what it wrote.
        paths: of all files that there were.
    """

    path: str
    marks: str
    root: Folder = field(default_factory=Folder)
    marked: list[str] = field(default_factory=list)
    paths: dict[Node, str] = field(default_factory=dict)
    _files: dict[int, Opened] = field(default_factory=dict)
    _syncs: dict[int, tuple[Node, int]] = field(default_factory=dict)
    _making: set[str] = field(default_factory=set)
    """Folders whose making has begun. Another thread may use one before the end of the call is recorded."""
    _mark_file: File = field(default_factory=File)

    def run(self, call: Call, forgets: re.Pattern[str] | None = None) -> Node | None:
        """Repeat a call, or the beginning of one; return what it changed, or the file of marks."""
        if call.result is None:
            self._begin(call, forgets)
            return None
        self._making.discard(_made_by(call))
        if call.result < 0 or call.name == "close":
            return None
        act = getattr(self, f"_{call.name}", None)
        if act is None:
            return self._unknown(call)
        return act(*call.given, result=call.result) if call.name not in SYNCS else self._safe(call)

    def path_of(self, node: Node) -> str:
        """Return where a file or folder was made, under its last name."""
        return self.marks if node is self._mark_file else self.paths.get(node, self.path)

    def _begin(self, call: Call, forgets: re.Pattern[str] | None) -> None:
        """What counts at the beginning: a sync covers what was written before; the number of a closed file is free."""
        if call.name == "close":
            self._files.pop(int(call.given[0]), None)
        if _made_by(call):
            self._making.add(_made_by(call))
        if call.name in SYNCS:
            self._syncs.pop(call.process, None)
            node = self._node(call.given[0])
            if node is not None and not (forgets and forgets.search(self.path_of(node))):
                self._syncs[call.process] = node, node.begin_sync()

    def _safe(self, call: Call) -> None:
        """A sync has ended."""
        node, upto = self._syncs.pop(call.process, (None, 0))
        if node is not None:
            node.end_sync(upto)

    _fsync = _fdatasync = _safe

    def _clone(self, *given: str, result: int) -> None:
        if not any("CLONE_THREAD" in one for one in given):
            raise UnknownCallError("the traced process has children")

    _clone3 = _fork = _vfork = _clone

    def _unknown(self, call: Call) -> None:
        """A call of another sort: an error if it names a file of the folder."""
        if call.name in _HARMLESS:
            return
        hexed = self.path.encode().hex()
        named = any(hexed in one.replace("\\x", "") for one in call.given)
        if named or any(one.isdigit() and self._node(one) is not None for one in call.given):
            raise UnknownCallError(f"{call.name}{call.given}")

    def _node(self, number: str) -> Node | None:
        opened = self._files.get(int(number)) if number.isdigit() else None
        return opened.node if opened else None

    def _place(self, text: str, folder: str = "AT_FDCWD") -> tuple[Folder, str] | None:
        """The folder and the name of a path, or None outside."""
        path = data_of(text).decode()
        node: Node | None = self.root
        if folder != "AT_FDCWD" and not path.startswith("/"):
            node = self._node(folder)
        elif path == self.path or not f"{path}/".startswith(f"{self.path}/"):
            return None
        else:
            path = path.removeprefix(f"{self.path}/")
        *above, name = path.rstrip("/").split("/")
        for depth, part in enumerate(above, 1):
            known = isinstance(node, Folder) and part in node.now
            if not known and (begun := "/".join([self.path, *above[:depth]])) in self._making:
                self._make(begun, node, part)
            node = node.now[part] if isinstance(node, Folder) else None
        return (node, name) if isinstance(node, Folder) else None

    def _at(self, text: str, folder: str = "AT_FDCWD") -> Node | None:
        if data_of(text).decode() == self.path:
            return self.root
        place = self._place(text, folder)
        return place[0].now.get(place[1]) if place else None

    def _open_at(self, folder: str, text: str, flags: str, result: int) -> Node | None:
        self._files.pop(result, None)
        if data_of(text).decode() == self.marks:
            self._files[result] = Opened(self._mark_file, appends=True)
            return None
        place, node, changed = self._place(text, folder), self._at(text, folder), False
        if node is None and place is not None and "O_CREAT" in flags:
            node, changed = File(), True
            place[0].change(Naming({place[1]: node}))
            self.paths[node] = data_of(text).decode()
        elif isinstance(node, File) and "O_TRUNC" in flags and node.now:
            node.change(Write(0, None))
            changed = True
        if node is not None:
            self._files[result] = Opened(node, appends="O_APPEND" in flags)
        return node if changed else None

    def _openat(self, folder: str, text: str, flags: str, mode: str = "", *, result: int) -> Node | None:
        return self._open_at(folder, text, flags, result)

    def _open(self, text: str, flags: str, mode: str = "", *, result: int) -> Node | None:
        return self._open_at("AT_FDCWD", text, flags, result)

    def _creat(self, text: str, mode: str, *, result: int) -> Node | None:
        return self._open_at("AT_FDCWD", text, "O_CREAT|O_TRUNC", result)

    def _dup(self, number: str, *rest: str, result: int) -> None:
        opened = self._files.get(int(number))
        self._files.pop(result, None)
        if opened is not None:
            self._files[result] = opened

    _dup2 = _dup3 = _dup

    def _fcntl(self, number: str, command: str, *rest: str, result: int) -> None:
        if command.startswith("F_DUPFD"):
            self._dup(number, result=result)
        elif not command.startswith(_HARMLESS_FCNTL) and self._node(number) is not None:
            raise UnknownCallError(f"fcntl {command}")

    def _lseek(self, number: str, *rest: str, result: int) -> None:
        if int(number) in self._files:
            self._files[int(number)].at = result

    def _pwrite64(self, number: str, text: str, size: str, at: str, *, result: int) -> Node | None:
        return self._put(number, int(at), data_of(text)[:result])

    def _write(self, number: str, text: str, size: str, *, result: int) -> Node | None:
        opened = self._files.get(int(number))
        if opened is None or not isinstance(opened.node, File):
            return None
        at = len(opened.node.now) if opened.appends else opened.at
        opened.at = at + result
        return self._put(number, at, data_of(text)[:result])

    def _put(self, number: str, at: int, data: bytes) -> Node | None:
        node = self._node(number)
        if node is self._mark_file:
            self.marked += data.decode().splitlines()
            return node
        if isinstance(node, File) and data:
            node.change(Write(at, data))
        return node

    def _writev(self, number: str, pieces: str, count: str, *, result: int) -> Node | None:
        if int(number) not in self._files:
            return None
        data = b"".join(map(data_of, _PIECE.findall(pieces)))
        return self._write(number, '"' + data.hex() + '"', count, result=result)

    def _ftruncate(self, number: str, size: str, *, result: int) -> Node | None:
        node = self._node(number)
        if isinstance(node, File):
            self._resize(node, int(size))
        return node

    def _truncate(self, text: str, size: str, *, result: int) -> Node | None:
        node = self._at(text)
        if isinstance(node, File):
            self._resize(node, int(size))
        return node

    def _resize(self, node: File, size: int) -> None:
        if size != len(node.now):
            node.change(Write(size, None))

    def _fallocate(self, number: str, mode: str, at: str, size: str, *, result: int) -> Node | None:
        node = self._node(number)
        if isinstance(node, File) and mode == "0":
            self._resize(node, max(len(node.now), int(at) + int(size)))
        elif node is not None and mode != "FALLOC_FL_KEEP_SIZE":
            raise UnknownCallError(f"fallocate {mode}")
        return node

    def _mmap(
        self, at: str, size: str, access: str, flags: str, number: str, offset: str, *, result: int
    ) -> None:
        node = self._node(number)
        # SQLite's index of its log is in shared memory, and made anew when the first process opens the journal.
        shared = node is not None and "PROT_WRITE" in access and "MAP_SHARED" in flags
        if shared and not self.path_of(node).endswith("-shm"):
            raise UnknownCallError(f"mmap of {self.path_of(node)}")

    def _move(self, source: tuple[Folder, str] | None, target: tuple[Folder, str] | None) -> Node | None:
        if source is None or target is None:
            if source or target:
                raise UnknownCallError("a rename across the folder's edge")
            return None
        node = source[0].now[source[1]]
        if source[0] is target[0]:
            source[0].change(Naming({source[1]: None, target[1]: node}))
        else:
            target[0].change(Naming({target[1]: node}))
            source[0].change(Naming({source[1]: None}))
        self._renamed(node, source[1], target[1])
        return node

    def _renamed(self, node: Node, before: str, name: str) -> None:
        old = self.paths.get(node, before)
        self.paths[node] = f"{old.rpartition('/')[0]}/{name}"

    def _rename(self, before: str, name: str, *, result: int) -> Node | None:
        return self._move(self._place(before), self._place(name))

    def _renameat(self, a: str, before: str, b: str, name: str, *, result: int) -> Node | None:
        return self._move(self._place(before, a), self._place(name, b))

    def _link(self, before: str, name: str, *, result: int) -> Node | None:
        return self._linkat("AT_FDCWD", before, "AT_FDCWD", name, "0", result=result)

    def _linkat(self, a: str, before: str, b: str, name: str, flags: str, *, result: int) -> Node | None:
        node, place = self._at(before, a), self._place(name, b)
        if node is None and place is None:
            return None
        if node is None or place is None:
            raise UnknownCallError("a link across the folder's edge")
        place[0].change(Naming({place[1]: node}))
        return node

    def _unlink(self, text: str, *, result: int) -> Node | None:
        return self._unlinkat("AT_FDCWD", text, "0", result=result)

    _rmdir = _unlink

    def _unlinkat(self, folder: str, text: str, flags: str, *, result: int) -> Node | None:
        place = self._place(text, folder)
        if place is None:
            return None
        node = place[0].now[place[1]]
        place[0].change(Naming({place[1]: None}))
        return node

    def _mkdir(self, text: str, mode: str, *, result: int) -> Node | None:
        return self._mkdirat("AT_FDCWD", text, mode, result=result)

    def _mkdirat(self, folder: str, text: str, mode: str, *, result: int) -> Node | None:
        place = self._place(text, folder)
        if place is None or place[1] in place[0].now:
            return None
        return self._make(data_of(text).decode(), *place)

    def _make(self, path: str, above: Node | None, name: str) -> Folder:
        assert isinstance(above, Folder)
        made = Folder()
        above.change(Naming({name: made}))
        self.paths[made] = path
        return made


def _made_by(call: Call) -> str:
    """The path of the folder that a call makes, or nothing."""
    if call.name == "mkdir" or (call.name == "mkdirat" and call.given[0] == "AT_FDCWD"):
        return data_of(call.given[-2]).decode()
    return ""


def moments(machine: Machine, calls: Iterable[Call], forgets: re.Pattern[str] | None = None) -> Iterator[str]:
    """Repeat calls on the machine, and yield the path of what changed after each change; that of the marks after a mark.

    Args:
        machine: that repeats them.
        calls: beginnings and ends, of one process.
        forgets: paths of files and folders whose syncs are left out, as if the process had not made them.
    """
    for call in calls:
        changed = machine.run(call, forgets)
        if changed is not None:
            yield machine.path_of(changed)
