"""Made-up bytes for every decoder, in a process whose memory is limited: python -m tests.hostile --seconds 600.

Each decoder may raise its documented errors and nothing else, take memory in proportion to the bytes, open files in its own
folder, and run no code that it was not started with.
"""

# ruff: noqa: T201 - a script that prints

import argparse
import random
import resource
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from tests.hostile.bombs import BOMBS, made
from tests.hostile.seeds import folder
from tests.hostile.targets import DOCUMENTED, Target, targets

FREE_MIB = 256
"""What a decoder may take beyond a multiple of its bytes. Arrow and the allocator reserve memory in large pieces."""
TIMES = 2_048
SLOW_SECONDS = 20.0
_CODE = {
    "exec",
    "compile",
    "pickle.find_class",
    "os.system",
    "subprocess.Popen",
    "ctypes.dlopen",
    "socket.connect",
}


def main() -> int:
    """Read bombs, then made-up bytes, and return 1 if anything undocumented happened."""
    parser = argparse.ArgumentParser(prog="python -m tests.hostile", description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0, help="how long, in all")
    parser.add_argument("--seed", type=int, default=random.randrange(2**32), help="of all random choices")
    parser.add_argument("--only", help="one decoder or bomb, by a part of its name")
    options = parser.parse_args()
    every = targets()
    for target in every:
        for seed in target.seeds():
            target.read(seed)  # Whatever has to be imported, is.
    chosen = [target for target in every if (options.only or "") in target.name]
    bombs = made()
    watch = Watch()
    for name, (_, read) in BOMBS.items():
        if (options.only or "") in name:
            watch.read(name, bombs[name], partial(read, bombs[name]))
    print(f"seed {options.seed}", flush=True)
    for target in chosen:
        torment(target, watch, random.Random(options.seed), options.seconds / len(chosen))
    for failure in watch.failures.values():
        print(failure)
    grown = peak_kib() - watch.limited_from >> 10
    print(
        f"{watch.reads} reads, {watch.accepted} accepted; at most {max(grown, 0)} MiB more; {len(watch.failures)} failures"
    )
    return 1 if watch.failures else 0


def torment(target: Target, watch: "Watch", rng: random.Random, seconds: float) -> None:
    """Read made-up bytes for so long."""
    before, end = (watch.reads, watch.accepted), time.monotonic() + seconds
    while time.monotonic() < end:
        data = target.example(rng)
        watch.read(target.name, data, partial(target.read, data))
    print(
        f"{target.name}: {watch.reads - before[0]} reads, {watch.accepted - before[1]} accepted", flush=True
    )


class Watch:
    """Limits this process, and looks at what decoders do to it.

    Attributes:
        reads, accepted: how many so far.
        failures: what was not documented, one for each place in the code.
        limited_from: KiB of address space before the first read.
    """

    def __init__(self) -> None:
        self.reads = self.accepted = 0
        self.failures: dict[str, str] = {}
        self.limited_from = peak_kib()
        self._watches = False
        self._seen: list[str] = []
        most = (self.limited_from << 10) + (4 << 30)
        resource.setrlimit(resource.RLIMIT_AS, (most, most))
        sys.addaudithook(self._announced)

    def read(self, name: str, data: bytes, act: Callable[[], object]) -> None:
        """Let a decoder read, and note what must not be."""
        self.reads += 1
        before, began = peak_kib(), time.monotonic()
        try:
            with self._watched():
                act()
            self.accepted += 1
        except DOCUMENTED:
            pass
        except Exception as error:  # noqa: BLE001 - any other is a failure
            place = traceback.extract_tb(error.__traceback__)[-1]
            self._fail(
                f"{name}: {type(error).__name__} in {place.filename}:{place.lineno}",
                f"{str(error)[:300]} {data[:80]!r}",
            )
        for event in self._seen:
            self._fail(f"{name}: {event}", repr(data[:80]))
        self._seen.clear()
        if peak_kib() - max(before, self.limited_from) > (FREE_MIB << 10) + (TIMES * len(data) >> 10):
            self._fail(f"{name}: {peak_kib() - before >> 10} MiB for {len(data)} bytes", repr(data[:80]))
        if time.monotonic() - began > SLOW_SECONDS:
            self._fail(f"{name}: {time.monotonic() - began:.0f} s for {len(data)} bytes", repr(data[:80]))

    def _fail(self, what: str, shown: str) -> None:
        self.failures.setdefault(what, f"FAILED {what}\n    {shown}")

    @contextmanager
    def _watched(self) -> Iterator[None]:
        self._watches = True
        try:
            yield
        finally:
            self._watches = False

    def _announced(self, event: str, values: Any) -> None:
        if not self._watches:
            return
        if event in _CODE or (event == "open" and isinstance(values[0], str) and not _is_ours(values[0])):
            self._seen.append(f"{event} {str(values)[:200]}")


def _is_ours(path: str) -> bool:
    """Whether a file is in the folder of the files that are read, or in a temporary one of a savepoint."""
    return Path(path).is_relative_to(folder()) or "windows-savepoint-" in path or path == "/proc/self/status"


def peak_kib() -> int:
    """Return the most address space that this process had so far, in KiB."""
    with Path("/proc/self/status").open("rb") as status:
        return next(int(line.split()[1]) for line in status if line.startswith(b"VmPeak:"))


if __name__ == "__main__":
    sys.exit(main())
