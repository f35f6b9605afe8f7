"""The system calls of a process, recorded by strace."""

import re
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

CHANGING = (
    *("open", "openat", "openat2", "creat", "close", "lseek", "dup", "dup2", "dup3", "fcntl"),
    *("write", "pwrite64", "writev", "pwritev", "pwritev2", "truncate", "ftruncate", "fallocate"),
    *("fsync", "fdatasync", "sync", "syncfs", "msync", "sync_file_range", "mmap", "io_uring_setup"),
    *("copy_file_range", "sendfile", "splice", "vmsplice", "ioctl"),
    *("rename", "renameat", "renameat2", "link", "linkat", "symlink", "symlinkat"),
    *("unlink", "unlinkat", "rmdir", "mkdir", "mkdirat", "mknod", "mknodat", "chdir", "fchdir"),
    *("fork", "vfork", "clone", "clone3"),
)
"""All calls that change files, or what a number of a file stands for."""
_LINE = re.compile(r"(\d+) +(?:<\.\.\. (\w+) resumed>|(\w+)\()(.*)", re.DOTALL)
_STRACE = shutil.which("strace") or ""
_UNFINISHED = "<unfinished ...>"
_END = re.compile(r"(.*)\) += (\?|-?\w+)(?: .*)?")


@dataclass(frozen=True)
class Call:
    """A call, or the beginning of one.

    Attributes:
        process: number of the thread.
        name: of the call.
        given: its arguments as strace prints them, texts in hex.
        result: what it returned; None for a beginning.
    """

    process: int
    name: str
    given: tuple[str, ...]
    result: int | None


@cache
def why_not() -> str:
    """Return why no process can be traced here, or nothing."""
    if not _STRACE:
        return "the system calls of a process are recorded by strace, which this machine lacks: apt-get install strace"
    done = subprocess.run(
        [_STRACE, "-f", "-o", "/dev/null", "true"], capture_output=True, text=True, check=False
    )
    return f"this system lets nobody trace a process: {done.stderr.strip()}" if done.returncode else ""


def record(command: Sequence[str], to: Path) -> None:
    """Run a command, and record its calls in a file."""
    calls = ",".join(f"?{name}" for name in CHANGING)
    strace = [_STRACE, "-f", "--seccomp-bpf", "-xx", "-s", str(1 << 28), "-e", f"trace={calls}"]
    done = subprocess.run(
        [*strace, "-e", "signal=none", "-o", str(to), *command], capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise RuntimeError(f"the traced process failed: {done.stderr[-2_000:]}")


def calls(recorded: Path) -> Iterator[Call]:
    """Yield the beginning and the end of each call in the order of time."""
    begun: dict[int, str] = {}
    with recorded.open() as lines:
        for line in lines:
            found = _LINE.fullmatch(line.rstrip("\n"))
            if found is None:
                continue  # An exit.
            process, resumed, name, rest = int(found[1]), found[2], found[3], found[4]
            if resumed:
                yield _ended(process, resumed, begun.pop(process) + rest)
            elif rest.endswith(_UNFINISHED):
                begun[process] = rest.removesuffix(_UNFINISHED).rstrip()
                yield Call(process, name, arguments(begun[process]), None)
            else:
                ended = _ended(process, name, rest)
                yield Call(process, name, ended.given, None)
                yield ended


def _ended(process: int, name: str, rest: str) -> Call:
    found = _END.fullmatch(rest)
    if found is None:
        raise ValueError(f"strace wrote a call of {name} that cannot be read: {rest[:80]}")
    result = -1 if found[2] == "?" else int(found[2], 0)
    return Call(process, name, arguments(found[1]), result)


def arguments(text: str) -> tuple[str, ...]:
    """Return the arguments of a call; commas within brackets do not divide."""
    found, begin, depth = [], 0, 0
    for match in re.finditer(r"[\[{(]|[\]})]|, ", text):
        if match[0] in "[{(":
            depth += 1
        elif match[0] in "]})":
            depth -= 1
        elif not depth:
            found.append(text[begin : match.start()])
            begin = match.end()
    return (*found, text[begin:].rstrip())


def data_of(quoted: str) -> bytes:
    """Return the bytes of a text as strace prints it."""
    if not quoted.startswith('"') or not quoted.endswith('"'):
        raise ValueError(f"strace recorded no whole text: {quoted[:80]}")
    return bytes.fromhex(quoted[1:-1].replace("\\x", ""))
