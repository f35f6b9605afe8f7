"""What a process and its folders hold, again and again, and whether it levels off."""

import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from statistics import fmean

MEASURES = {
    "memory_mb": ("memory of the workers, MB", 0.05, 4),
    "files": ("open files of the workers", 0.05, 3),
    "threads": ("threads of the workers", 0.05, 2),
    "jvm_files": ("open files of the JVM", 0.05, 3),
    "jvm_threads": ("threads of the JVM", 0.05, 2),
    "state_mb": ("local state, MB", 0.15, 0.5),
    "checkpoint_mb": ("checkpoint, MB", 0.15, 0.5),
    "checkpoint_files": ("files of the checkpoint", 0.15, 10),
    "snapshots_mb": ("snapshots, MB", 0.15, 0.5),
    "snapshots_files": ("files of the snapshots", 0.15, 10),
}
"""Each in words, and by which share, and how much beside it, its mean may rise from one third of a run to the next: files come
in waves, and where there are few of them, a third of a run may see one wave more than another."""

_MB = 1e6
Sample = dict[str, float]


def of_processes(pids: Iterable[int]) -> Counter[str]:
    """Return the resident memory, the open files and the threads of processes together; those that are gone have none."""
    found: Counter[str] = Counter()
    for pid in pids:
        try:
            status = Path(f"/proc/{pid}/status").read_text()
            files = len(list(Path(f"/proc/{pid}/fd").iterdir()))
        except OSError:
            continue
        fields = dict(line.partition(":")[::2] for line in status.splitlines())
        found += Counter(
            memory=int(fields.get("VmRSS", "0 kB").split()[0]) * 1_024,
            files=files,
            threads=int(fields.get("Threads", "0")),
        )
    return found


def of_folder(folder: Path) -> tuple[int, int]:
    """Return the bytes and the files below a folder; what goes meanwhile does not count."""
    size = files = 0
    for level, _, names in os.walk(folder):
        for name in names:
            try:
                size += Path(level, name).lstat().st_size
            except OSError:
                continue
            files += 1
    return size, files


def sample(batch: int, workers: Iterable[int], folders: Mapping[str, Path]) -> Sample:
    """Return what workers and folders hold after a batch."""
    held = of_processes(workers)
    found: Sample = {
        "batch": batch,
        "memory_mb": held["memory"] / _MB,
        "files": held["files"],
        "threads": held["threads"],
    }
    for name, folder in folders.items():
        size, files = of_folder(folder)
        found |= {f"{name}_mb": size / _MB, f"{name}_files": files}
    return found


def verdicts(samples: Sequence[Sample]) -> dict[str, dict[str, float | bool]]:
    """Return of each measure its means in the middle third and in the last, and whether it is bounded: it did not grow."""
    third = len(samples) // 3
    middle, last = samples[third : 2 * third], samples[2 * third :]
    found: dict[str, dict[str, float | bool]] = {}
    for name, (_, share, beside) in MEASURES.items():
        if third and name in samples[0]:
            before, now = (fmean(one[name] for one in part) for part in (middle, last))
            most = before * (1 + share) + beside
            found[name] = {"middle": round(before, 3), "last": round(now, 3), "bounded": now <= most}
    return found


def table(name: str, samples: Sequence[Sample]) -> list[str]:
    """Return the verdicts as lines of text."""
    return [
        f"{name:8} {MEASURES[measure][0]:28} {found['middle']:10.2f} -> {found['last']:10.2f}  "
        f"{'bounded' if found['bounded'] else 'GROWS'}"
        for measure, found in verdicts(samples).items()
    ]
