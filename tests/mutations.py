"""Bugs put into the product one at a time, each of which `make test` has to find: python -m tests.mutations [NUMBER ...].

A bug is found by its text in whatever file it stands, so that files may move. Files are left as they were.
"""

# ruff: noqa: T201 - a script that prints

import argparse
import re
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGES = ("operators", "serializers", "state_backends")
FIRST, THEN = "not slow and not spark", "not slow and spark"
"""The tests that are quick come first."""


@dataclass(frozen=True, slots=True)
class Mutation:
    """A bug: what it breaks, the text that is there once, and what it becomes."""

    breaks: str
    old: str
    new: str


MUTATIONS = (
    Mutation(
        "the lower bound of sliding windows",
        'lo = np.searchsorted(place, place[a] - size, "left")',
        'lo = np.searchsorted(place, place[a] - size, "right")',
    ),
    Mutation(
        "the upper bound of hopping windows",
        'place[lo] + (start + (self.size - self.pane) - time[lo]), "right")',
        'place[lo] + (start + (self.size - self.pane) - time[lo]), "left")',
    ),
    Mutation(
        "lateness",
        "return time < plan.late_before(step.close_time_start)",
        "return time <= plan.late_before(step.close_time_start)",
    ),
    Mutation(
        "how long panes of sliding windows are kept",
        "return close_time - self.size - 1",
        "return close_time - self.size",
    ),
    Mutation(
        "expiry of segments",
        "self._latest.get(segment, self.span_of(segment)[1])",
        "self._latest.get(segment, self.span_of(segment)[0])",
    ),
    Mutation(
        "sessions whose distance is the gap",
        "(start[1:] > running_max(key, end)[:-1])",
        "(start[1:] >= running_max(key, end)[:-1])",
    ),
    Mutation(
        "retraction of sessions that were merged",
        "same = (columns[START] == self.start[self.number]) & (columns[END] == self.end[self.number])",
        "same = columns[END] == self.end[self.number]",
    ),
    Mutation(
        "deletes when the changelog is replayed",
        "backend.write(batch, entry.after)",
        "backend.write(WriteBatch(batch.puts, {}, batch.drop_segments_below), entry.after)",
    ),
    Mutation(
        "which entries of the changelog are kept",
        "oldest = min(oldest, needed + 1)",
        "oldest = min(oldest, needed + 2)",
    ),
    Mutation(
        "which snapshots are kept",
        "kept = before[:1] if snapshot.name else ()",
        "kept = before[1:2] if snapshot.name else ()",
    ),
    Mutation(
        "checksums of pages",
        "sums[filled] += np.add.reduceat(word, starts[filled]) * np.uint64(2 * number + 1)",
        "sums[filled] += np.add.reduceat(word, starts[filled])",
    ),
    Mutation(
        "pages that are written by columns",
        "columnwise = counts >= _MANY",
        "columnwise = counts > _MANY",
    ),
    Mutation(
        "timers at the time of a record",
        "            if time >= before:\n                break",
        "            if time > before:\n                break",
    ),
    Mutation(
        "deduct of users' aggregates",
        "for column in totals) for edge in (hi, lo)",
        "for column in totals) for edge in (hi, lo + 1)",
    ),
    Mutation(
        "partial aggregation: panes of several tasks",
        "panes, count = self.reduce(panes, starts), np.add.reduceat(count, starts)",
        "panes, count = panes.take(starts), np.add.reduceat(count, starts)",
    ),
    Mutation(
        "partial aggregation by Spark: panes before the epoch",
        "start = time - F.pmod(time - F.lit(kind.offset * tick_us), F.lit(kind.pane * tick_us))",
        "start = time - (time - F.lit(kind.offset * tick_us)) % F.lit(kind.pane * tick_us)",
    ),
    Mutation(
        "sides of cogrouped frames",
        "return renamed if aggregate.where is not None else replace(renamed, where=self.marker)",
        "return renamed",
    ),
    Mutation(
        "the watermark of chains",
        "rule = WatermarkRule(True, behind + max(0, grace_us - given * 1_000))",
        "rule = WatermarkRule(False, behind + max(0, grace_us - given * 1_000))",
    ),
    Mutation(
        "the close time of a watermark",
        "else ((watermark_ms + 1) * 1_000 - behind_us) // tick_us",
        "else (watermark_ms * 1_000 - behind_us) // tick_us",
    ),
    Mutation(
        "the order of waiting rows",
        "return found if order is None else found.take(order)",
        "return found",
    ),
    Mutation(
        "keys of floating point",
        "return [canonical(value) for value in column.to_pylist()]",
        "return column.to_pylist()",
    ),
    Mutation(
        "the copy of a state that an error left half done",
        "known = self._ready and not done.restored and self.engine.state",
        "known = not done.restored and self.engine.state",
    ),
    Mutation(
        "combination of ranges of three panes",
        "combine(_rows(result, later), _rows(level, position[later]))",
        "combine(_rows(level, position[later]), _rows(result, later))",
    ),
    Mutation(
        "which ends belong to rolling windows",
        'skipped = ranks.before(since) if kind.closed in ("both", "left") else ranks.until(since)',
        'skipped = ranks.before(since) if kind.closed in ("both", "right") else ranks.until(since)',
    ),
    Mutation(
        "the timers of waiting rows",
        "waits = (entries.columns[_WAITING] > 0) & (entries.time >= close_time)",
        "waits = (entries.columns[_WAITING] > 0) & (entries.time > close_time)",
    ),
    Mutation(
        "which panes go into a lifetime",
        "stored = [n for n in self._store.segments() if (n + 1) * ticks <= forgotten]",
        "stored = [n for n in self._store.segments() if (n + 1) * ticks < forgotten]",
    ),
    Mutation(
        "sums of pages that were written",
        "            self.sums.forget(segment, keys, pages)\n",
        "            pass\n",
    ),
    Mutation(
        "timers of pages that came by a cut",
        "chosen = ~exact | fired[page] | (due < was_due[page])",
        "chosen = fired[page] | (due < was_due[page])",
    ),
    Mutation(
        "equal times, which stay in one page",
        "    at = _first_of_time(at, time)\n",
        "",
    ),
    Mutation(
        "pages of changes that were dropped",
        "        self._directory.unstage(self._staged.changes)\n",
        "",
    ),
    Mutation(
        "keys all of whose pages are summed",
        "opens[1:] |= (pages.key[1:] == pages.key[:-1]) & (pages.start[1:] == pages.last[:-1] + 1)",
        "opens[1:] |= pages.key[1:] == pages.key[:-1]",
    ),
    Mutation(
        "pages that a rolling window without its start contains as a whole",
        "whole &= (start > latest - length)",
        "whole &= (start >= latest - length)",
    ),
    Mutation(
        "which packed sum is of which page",
        "held += packed",
        "held += packed[::-1]",
    ),
    Mutation(
        "which row of a key is its last in a table",
        "order = np.lexsort((updated, sequence, groups))",
        "order = np.lexsort((sequence, updated, groups))",
    ),
    Mutation(
        "the watermark of several inputs",
        "return max(watermark_ms, min(known, default=watermark_ms))",
        "return max(known, default=watermark_ms)",
    ),
    Mutation(
        "what the clock leaves open in quiet streams",
        "return (now_ms * 1_000 - max(self.idle_ms * 1_000, self.open_us)) // tick_us",
        "return (now_ms * 1_000 - self.idle_ms * 1_000) // tick_us",
    ),
    Mutation(
        "which files of a savepoint a bucket reads",
        "if saved.rows and low < saved.high and saved.low < high:",
        "if saved.rows and low < saved.high and saved.low <= low:",
    ),
    Mutation(
        "NaN among top values",
        "return [(value != value, 0 if value != value else value) for value in item]",
        "return [(value == value, 0 if value != value else value) for value in item]",
    ),
    Mutation(
        "retractions of forgotten keys whose windows come out anew",
        "emitted = [*(rows.without(emitted) for rows in retracting), *emitted]",
        "emitted = [*retracting, *emitted]",
    ),
    Mutation(
        "estimates of distinct values in long windows",
        "of_rows(np.maximum(level[lo[some]], level[hi[some] - width]))",
        "of_rows(level[lo[some]])",
    ),
)


def file_of(old: str) -> Path:
    """Return the file that has the text.

    Raises:
        LookupError: it is not there exactly once.
    """
    paths = [path for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py"))]
    found = [path for path in paths for _ in range(path.read_text().count(old))]
    if len(found) != 1:
        raise LookupError(f"{old!r} is {len(found)} times in the product: mend its mutation")
    return found[0]


@contextmanager
def applied(mutation: Mutation) -> Iterator[Path]:
    """Put the bug into its file, and take it out again."""
    path = file_of(mutation.old)
    text = path.read_text()
    path.write_text(text.replace(mutation.old, mutation.new))
    try:
        yield path
    finally:
        path.write_text(text)


def finder(tests: Sequence[str], options: Sequence[str]) -> str | None:
    """Return the first test that fails, or None."""
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *options]
    command += ["--hypothesis-profile", "mutations"]
    for chosen in (FIRST, THEN):
        done = subprocess.run(
            [*command, "-m", chosen, *tests], cwd=ROOT, capture_output=True, text=True, check=False
        )
        found = re.search(r"^(?:FAILED|ERROR) (.*?)(?: - .*)?$", done.stdout, re.MULTILINE)
        if found:
            return found[1]
        if done.returncode not in (0, 5):
            raise RuntimeError(done.stdout + done.stderr)
    return None


def main() -> int:
    """Print which test finds which bug, and return 1 if one is not found."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutations", description=__doc__)
    parser.add_argument("numbers", nargs="*", type=int, help="of mutations; by default all")
    parser.add_argument("--tests", nargs="+", default=["tests"], help="files or folders; by default all")
    parser.add_argument("--workers", default="0", help="processes, as pytest-xdist has them")
    given = parser.parse_args()
    chosen = [(n, one) for n, one in enumerate(MUTATIONS, 1) if not given.numbers or n in given.numbers]
    for _, mutation in chosen:
        file_of(mutation.old)
    missed = 0
    for number, mutation in chosen:
        began = time.monotonic()
        with applied(mutation) as path:
            found = finder(given.tests, ["-n", given.workers, "--dist", "loadfile", "--no-loadscope-reorder"])
        missed += found is None
        where = f"{number}. {mutation.breaks} ({path.relative_to(ROOT)})"
        print(f"{where}: {found or 'NOT FOUND'}, {time.monotonic() - began:.0f} s", flush=True)
    return min(missed, 1)


if __name__ == "__main__":
    sys.exit(main())
