"""A disk that answers read errors: a library is loaded before the process's own, so that reads of some files fail."""

# ruff: noqa: T201 - a process that answers

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest

from operators import TumblingWindows
from operators import aggregates as agg
from state_backends import StateError

KEYS, LATER = 2_000, 10**9
ROWS = sorted([f"key {n}", 2, 2 * n] for n in range(KEYS))
LIBRARY = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int fails(int file) {
    const char *sign = getenv("READS_FAIL_WHILE"), *end = getenv("READS_FAIL_OF");
    char link[64], path[4096];
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    ssize_t length = readlink(link, path, sizeof path), suffix = end ? strlen(end) : 0;
    if (!sign || !suffix || access(sign, F_OK) || length < suffix) return 0;
    if (memcmp(path + length - suffix, end, suffix)) return 0;
    if (strstr(sign, "once")) unlink(sign);
    errno = EIO;
    return 1;
}

ssize_t pread(int file, void *to, size_t size, off_t at) {
    static ssize_t (*real)(int, void *, size_t, off_t);
    if (!real) real = dlsym(RTLD_NEXT, "pread");
    return fails(file) ? -1 : real(file, to, size, at);
}

ssize_t pread64(int file, void *to, size_t size, off64_t at) {
    static ssize_t (*real)(int, void *, size_t, off64_t);
    if (!real) real = dlsym(RTLD_NEXT, "pread64");
    return fails(file) ? -1 : real(file, to, size, at);
}
"""
"""Reads of files whose name ends as asked fail while a sign is there; a sign with "once" in its name fails one read."""


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The library, compiled."""
    if shutil.which("gcc") is None:
        pytest.skip("reads that fail need gcc, which compiles the library that has them fail")
    folder = tmp_path_factory.mktemp("library")
    (folder / "reads.c").write_text(LIBRARY)
    built = folder / "reads.so"
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", str(built), str(folder / "reads.c"), "-ldl"], check=True)  # noqa: S607
    return built


def batch(at: int) -> pa.Table:
    """A record of each key."""
    return pa.table([[f"key {n}" for n in range(KEYS)], [at] * KEYS, list(range(KEYS))], ["k", "at", "v"])


def main(folder: Path, sign: Path, snapshots: str) -> None:
    """Run three batches, each with a runner that opens the copy anew, the last while reads fail; print its rows or error."""
    windows = TumblingWindows(1_000).group_by("k").aggregate(n=agg.count(), total=agg.sum("v"))
    options: dict[str, object] = {"state.snapshots.batches": 1, "state.snapshots.background": False}
    if snapshots:
        options["state.snapshots.folder"] = snapshots
    for at in (10, 20):
        with windows.local_runner("at", "rocksdb", folder, options) as runner:
            runner.process(batch(at), at)
    sign.touch()
    for _ in range(2):
        try:
            with windows.local_runner("at", "rocksdb", folder, options) as runner:
                rows = runner.process(batch(LATER).slice(0, 0), LATER).to_pylist()
        except StateError as error:
            print(json.dumps(str(error)))
            sign.unlink()
        else:
            print(json.dumps(sorted([row["k"], row["n"], row["total"]] for row in rows)))
            return


def run(
    library: Path, failing: str, folder: Path, sign: str, snapshots: str | Path = ""
) -> tuple[list[str], object, str]:
    """Run main in a process of its own; return the errors, the rows and the log."""
    done = subprocess.run(
        [sys.executable, "-m", __spec__.name, str(folder / "state"), str(folder / sign), str(snapshots)],
        env={
            **os.environ,
            "LD_PRELOAD": str(library),
            "READS_FAIL_WHILE": str(folder / sign),
            "READS_FAIL_OF": failing,
        },
        capture_output=True,
        text=True,
        check=True,
    )
    *errors, rows = map(json.loads, done.stdout.splitlines())
    return errors, rows, done.stderr


@pytest.mark.slow
def test_a_journal_that_cannot_be_read_is_named(library: Path, tmp_path: Path) -> None:
    """SQLite's read errors end the batch with the journal's name. Nothing is lost: with another disk it goes on."""
    errors, rows, _ = run(library, "journal", tmp_path, "always")
    assert rows == ROWS
    assert len(errors) == 1
    assert f"cannot read or write the journal {tmp_path / 'state'}" in errors[0]
    assert "disk I/O error" in errors[0]


@pytest.mark.slow
@pytest.mark.parametrize("sign", ["once", "always"])
@pytest.mark.parametrize("snapshots", [False, True])
def test_reads_that_fail_lose_no_row(library: Path, tmp_path: Path, sign: str, *, snapshots: bool) -> None:
    """The copy is rebuilt. If that one cannot be read, either, the batch fails and says so; with another disk it goes on."""
    errors, rows, log = run(library, ".sst", tmp_path, sign, tmp_path / "snapshots" if snapshots else "")
    assert rows == ROWS
    assert "Input/output error" in log
    assert len(errors) == (snapshots and sign == "always")
    for error in errors:
        assert error.startswith("a local copy was damaged again right after it was rebuilt: ")
        assert "Input/output error" in error
        assert "replace the disk, or set spark.windows.state.directory" in error


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3])
