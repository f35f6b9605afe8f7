"""Bugs put into the product one at a time, each of which a test has to find: python -m tests.mutations [NUMBER ...].

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
TURNS = "not slow and not spark", "not slow and spark", "slow and not connectors"
"""The tests that are quick come first."""


@dataclass(frozen=True, slots=True)
class Mutation:
    """A bug.

    Attributes:
        breaks: what it breaks.
        old: the text that is there once.
        new: what it becomes.
        symptom: what a user would say of it.
        row: the first cell of the row that leads to its file, among those of "Where to look" in How it works.
    """

    breaks: str
    old: str
    new: str
    symptom: str = ""
    row: str = ""


_VALUE = "a value is wrong, the window is right"
_BOUNDS = "a window has a record too many, or lacks one"
_LATE = "a record is late, or is not"
_GONE = "state grows, or is gone too early"
_TIMERS = "a window comes too early, too late, twice or never"
_RESTART = "wrong after a restart, right without"
_SESSIONS = "sessions: retractions, cuts"
_ROLLING = "rolling rows: their order, when they come, results over all records of a key (lifetimes)"
_USERS = "only folds, or users' functions, are wrong"
_CHAINS = "chains: windows that never close, rows that are late"
_SPARK = "wrong on Spark, right with a local runner"
_PAGES = "a page is refused, or its bytes are wrong"
_REFUSED = "a checkpoint is refused, or should be"
_PUBLISHED = "what a reader of published pages answers, or refuses"
_ADDED = "an aggregate that was added: since when it counts, or filled from history"
_WAITING = "columns of rows that wait, after the input's columns have changed"
_BLAMED = "the error of a function names another record or window, or none"
_FORGOTTEN = "a key that was to be forgotten: the request is not done, files still have it"
MUTATIONS = (
    Mutation(
        "the days that a MERGE reads",
        "return [(days[start], days[end - 1]) for start, end in zip(starts, ends, strict=True)]",
        "return [(days[start], days[end - 2]) for start, end in zip(starts, ends, strict=True)]",
        "A table of Delta has a window twice, the old and the new row.",
        "a table of Delta or Iceberg lacks a batch, or has one twice; its files that are read",
    ),
    Mutation(
        "the lower bound of sliding windows",
        'lo = np.searchsorted(place, place[a] - size, "left")',
        'lo = np.searchsorted(place, place[a] - size, "right")',
        "A sliding window of 10 s lacks the record that is exactly 10 s before its end.",
        _BOUNDS,
    ),
    Mutation(
        "the upper bound of hopping windows",
        'hi = np.searchsorted(place, place[lo] + (end - time[lo]), "left")',
        'hi = np.searchsorted(place, place[lo] + (end - time[lo]), "right")',
        "A hopping window has the records of the pane that begins at its end.",
        _BOUNDS,
    ),
    Mutation(
        "the local time that a clock has reached before it goes back",
        "return np.maximum(time + ahead[at], reached[at] - 1) + away",
        "return time + ahead[at] + away",
        "Where clocks go back over midnight, records of an hour are in the window of the day before, which has ended.",
        _BOUNDS,
    ),
    Mutation(
        "days that a clock leaves out",
        "return (start == end) | (start == self.start(number + 1)) | (end == self.end(number - 1))",
        "return start == end",
        "Two windows of a key have the same start, in Samoa in December 2011.",
        _BOUNDS,
    ),
    Mutation(
        "the last Sunday of a month",
        "days = np.where(days >= after, days - 7, days)",
        "days = np.where(days > after, days - 7, days)",
        "Summer time begins a week late in some years, decades ahead.",
        _BOUNDS,
    ),
    Mutation(
        "the begin of what is to date",
        'return self.closed in ("both", "left") or isinstance(lookback, Calendar)',
        'return self.closed in ("both", "left")',
        "A record at local midnight is not in its day to date, with closed='right'.",
        _BOUNDS,
    ),
    Mutation(
        "how far back lookbacks to date need state",
        "earliest = np.minimum(earliest, calendar.begin(np.clip(time, FAR_PAST, FAR_FUTURE)))",
        "earliest = calendar.begin(np.clip(time, FAR_PAST, FAR_FUTURE))",
        "On January 1, the week to date lacks its days of December.",
        _BOUNDS,
    ),
    Mutation(
        "which categories of a map stay",
        "rank = (window * (highest + 1) + (highest - count)) << bits | place",
        "rank = (window * (highest + 1) + count) << bits | place",
        "A map of the two commonest categories has the two rarest.",
        _VALUE,
    ),
    Mutation(
        "where a category's states in a window end",
        "for edge in (begin, end))",
        "for edge in (begin, end - 1))",
        "A sum by category lacks the latest record of the window in some categories.",
        _VALUE,
    ),
    Mutation(
        "where a category's states are in a table",
        "place[np.arange(1, size + 1), items.number] = 1",
        "place[np.arange(size), items.number] = 1",
        "A sum by category has the record before the window in place of the window's last.",
        _VALUE,
    ),
    Mutation(
        "lateness",
        "late = time < plan.late_before(close_time)",
        "late = time <= plan.late_before(close_time)",
        "A record that comes at the very end of its grace is dropped as late.",
        _LATE,
    ),
    Mutation(
        "how long panes of sliding windows are kept",
        "return close_time - self.size - 1",
        "return close_time - self.size",
        "A sliding window that begins just after a record lacks other records, now and then.",
        _GONE,
    ),
    Mutation(
        "expiry of segments",
        "self._latest.get(segment, self.span_of(segment)[1])",
        "self._latest.get(segment, self.span_of(segment)[0])",
        "Sums of long windows become too small after some hours of a stream.",
        _GONE,
    ),
    Mutation(
        "sessions whose distance is the gap",
        "(start[1:] > running_max(key, waits)[:-1])",
        "(start[1:] >= running_max(key, waits)[:-1])",
        "Two records that are exactly a gap apart end up in two sessions.",
        _SESSIONS,
    ),
    Mutation(
        "retraction of sessions that were merged",
        "same = (columns[START] == self.start[self.number]) & (columns[END] == self.end[self.number])",
        "same = columns[END] == self.end[self.number]",
        "After two sessions became one, the table still has the older one.",
        _SESSIONS,
    ),
    Mutation(
        "which stored entries lack columns of lifetimes",
        "if not (different or order) and stored.head == binding.plan.head:",
        "if not (different or order):",
        "A rolling query with on_arrival fails when it is started again with forget_after.",
        _REFUSED,
    ),
    Mutation(
        "deletes when the changelog is replayed",
        "backend.write(batch, entry.after)",
        "backend.write(WriteBatch(batch.puts, {}, batch.drop_segments_below), entry.after)",
        "After a restart, sessions that had ended long ago come out again.",
        _RESTART,
    ),
    Mutation(
        "which entries of the changelog are kept",
        "min(pointer.number - fewest, needed) + 1",
        "min(pointer.number - fewest, needed + 1) + 1",
        "The query does not start again: an entry of the changelog is missing.",
        "a snapshot is missing, late, or not removed",
    ),
    Mutation(
        "which snapshots are kept",
        "kept = before[:1] if snapshot.name else ()",
        "kept = before[1:2] if snapshot.name else ()",
        "With a damaged newest snapshot, the state cannot be restored, though an older one should be there.",
        "a snapshot is missing, late, or not removed",
    ),
    Mutation(
        "checksums of pages",
        "sums[filled] += np.add.reduceat(word, starts[filled]) * np.uint64(2 * number + 1)",
        "sums[filled] += np.add.reduceat(word, starts[filled])",
        "A page in which two numbers changed places is read without an error.",
        _PAGES,
    ),
    Mutation(
        "layouts of pages",
        "wrong |= (headers[:, 1] & 0xFFFFFFFF) != self.fingerprint",
        "wrong |= (headers[:, 1] & 0xFFFF) != self.fingerprint & 0xFFFF",
        "A page of an operator with other columns may be read without an error.",
        _PAGES,
    ),
    Mutation(
        "timers at the time of a record",
        "            if time >= before:\n                break",
        "            if time > before:\n                break",
        "A custom operator sees a record before the timer that was set to the same time.",
        "a custom operator: order of records and timers",
    ),
    Mutation(
        "deduct of users' aggregates",
        "for column in totals) for edge in (hi, lo)",
        "for column in totals) for edge in (hi, lo + 1)",
        "An aggregate of my own with a deduct function is wrong as soon as records leave a window.",
        _USERS,
    ),
    Mutation(
        "partial aggregation: panes of several tasks",
        "panes = self.reduce(panes, starts)\n            count = ",
        "panes = panes.take(starts)\n            count = ",
        "On Spark with several input partitions, counts are too small.",
        _SPARK,
    ),
    Mutation(
        "partial aggregation by Spark: panes before the epoch",
        "start = time - F.pmod(time - F.lit(offset * tick_us), F.lit(length * tick_us))",
        "start = time - (time - F.lit(offset * tick_us)) % F.lit(length * tick_us)",
        "Batch only: records of before 1970 are in the wrong hopping window.",
        _SPARK,
    ),
    Mutation(
        "sides of cogrouped frames",
        "return renamed if aggregate.where is not None else replace(renamed, where=self.marker)",
        "return renamed",
        "With two frames, a count of the first one counts rows of the second one as well.",
        _VALUE,
    ),
    Mutation(
        "the watermark of chains",
        "rule = WatermarkRule(True, behind + max(0, grace_us - delay_ms * 1_000))",
        "rule = WatermarkRule(False, behind + max(0, grace_us - delay_ms * 1_000))",
        "The second of two operators in a query drops rows of the first one as late.",
        _CHAINS,
    ),
    Mutation(
        "the close time of a watermark",
        "else ((watermark_ms + 1) * 1_000 - behind_us) // tick_us",
        "else (watermark_ms * 1_000 - behind_us) // tick_us",
        "Each window comes out one millisecond of event time too late.",
        _LATE,
    ),
    Mutation(
        "the order of waiting rows",
        "return found if order is None else found.take(order)",
        "return found",
        "Rows that wait for the watermark come out in another order than by time.",
        _ROLLING,
    ),
    Mutation(
        "keys of floating point",
        "return [canonical(value) for value in column.to_pylist()]",
        "return column.to_pylist()",
        "The key -0.0 and the key 0.0 are two groups.",
        "two keys that should be one, or the reverse",
    ),
    Mutation(
        "the copy of a state that an error left half done",
        "if self._ready and done.current and state.close_time <= progress.close_time:",
        "if done.current and state.close_time <= progress.close_time:",
        "After a batch that failed and ran again in the same process, windows are missing.",
        _RESTART,
    ),
    Mutation(
        "combination of ranges of three panes",
        "combine(_rows(result, later), _rows(level, position[later]))",
        "combine(_rows(level, position[later]), _rows(result, later))",
        "A collect_list has the right elements in the wrong order, in windows of three panes.",
        _VALUE,
    ),
    Mutation(
        "which ends belong to rolling windows",
        "skipped = ranks.before(since) if kind.has_start(lookback) else ranks.until(since)",
        'skipped = ranks.before(since) if kind.closed in ("both", "right") else ranks.until(since)',
        "A rolling window that is closed on the left has a record too many.",
        _BOUNDS,
    ),
    Mutation(
        "the timers of waiting rows",
        "waits = (entries.columns[_WAITING] > 0) & (entries.time >= close_time)",
        "waits = (entries.columns[_WAITING] > 0) & (entries.time > close_time)",
        "The last row of a key never comes out.",
        _ROLLING,
    ),
    Mutation(
        "which panes go into a lifetime",
        "stored = [n for n in self._store.segments() if (n + 1) * ticks <= forgotten]",
        "stored = [n for n in self._store.segments() if (n + 1) * ticks < forgotten]",
        "An aggregate over all records of a key counts some of them twice, or not at all.",
        _ROLLING,
    ),
    Mutation(
        "sums of pages that were written",
        "            self.sums.forget(segment, keys, pages)\n",
        "            pass\n",
        "A large window has an old value after a record of its middle came.",
        _VALUE,
    ),
    Mutation(
        "timers of pages that came by a cut",
        "chosen = ~exact | fired[page] | (due < was_due[page])",
        "chosen = fired[page] | (due < was_due[page])",
        "For a key with very many records, some windows never come out.",
        _TIMERS,
    ),
    Mutation(
        "equal times, which stay in one page",
        "    at = _first_of_time(at, time)\n",
        "",
        "With many records of one time, a key has two entries where there should be one.",
        _GONE,
    ),
    Mutation(
        "pages that somebody else wrote",
        "        self._directory.clear()\n        self.usage.clear_keys()\n",
        "        self.usage.clear_keys()\n",
        "After a batch that failed and ran again, a page is looked for that does not exist.",
        _GONE,
    ),
    Mutation(
        "keys all of whose pages are summed",
        "opens[1:] |= (pages.key[1:] == pages.key[:-1]) & (pages.start[1:] == pages.last[:-1] + 1)",
        "opens[1:] |= pages.key[1:] == pages.key[:-1]",
        "A rolling sum over a day of a busy key has a gap: records of some minutes are left out.",
        _VALUE,
    ),
    Mutation(
        "pages that a rolling window without its start contains as a whole",
        "whole &= (start > final) | (last < first)",
        "whole &= (start >= final) | (last < first)",
        "A rolling window that is open at its start contains the record at its start.",
        _BOUNDS,
    ),
    Mutation(
        "which packed sum is of which page",
        "held += packed",
        "held += packed[::-1]",
        "Two busy keys have each other's sums.",
        _VALUE,
    ),
    Mutation(
        "published pages of keys that have got several",
        "first = found.key[in_tree & (found.start == found.begin)].tolist()",
        "first = list[int]()",
        "A reader of features counts the first records of a busy key twice.",
        _PUBLISHED,
    ),
    Mutation(
        "until when the table of an idle query is current",
        "if head is None or head.query != query or (least_batch is not None and head.batch < least_batch):",
        "if head is None or head.query != query:",
        "A table that was restored from a backup counts as current, though it lacks batches.",
        _PUBLISHED,
    ),
    Mutation(
        "parts of a new edition beside another driver's",
        "        if not self._pages.write(changes_of(rows, KEY_COLUMNS, self._name, self._number, None)):",
        "        if not self._pages.write(changes_of(rows, KEY_COLUMNS, self._name, self._number, None)) and False:",
        "Two drivers write all pages at once, and keys hold nothing.",
        _PUBLISHED,
    ),
    Mutation(
        "what a sum of published pages reaches to",
        "end[followed] = start[followed + 1] - 1",
        "end[followed] = start[followed]",
        "A reader of features counts records of a busy key that are older than the lookback.",
        _PUBLISHED,
    ),
    Mutation(
        "which row of a key is its last in a table",
        "np.lexsort((updated, sequence, groups))",
        "np.lexsort((sequence, updated, groups))",
        "A table keeps a window that was retracted in the same batch.",
        "the rows of a table",
    ),
    Mutation(
        "the watermark of several inputs",
        "return max(now, min(known, default=now))",
        "return max(known, default=now)",
        "With two input streams, windows close before the slower one has come so far.",
        _LATE,
    ),
    Mutation(
        "what the clock leaves open in quiet streams",
        "return (now_ms * 1_000 - max(idle_ms * 1_000, self.rule.open_us)) // self.tick_us",
        "return (now_ms * 1_000 - idle_ms * 1_000) // self.tick_us",
        "With idle shorter than grace, records within grace are late after a quiet time.",
        _LATE,
    ),
    Mutation(
        "when a chain is quiet",
        "moved = self._follows and self.call.watermark_ms != self.progress.last_watermark_ms",
        "moved = False",
        "With idle in a chain, rows of the first operator are late for the second while a backlog is read.",
        _LATE,
    ),
    Mutation(
        "which files of a savepoint a bucket reads",
        "if low < file.high and file.low < high]",
        "if low < file.high and file.low <= low]",
        "After a move to more buckets by a savepoint, keys are gone.",
        "savepoints, `read_state`",
    ),
    Mutation(
        "NaN among top values",
        "return [null if v is None else (v != v, 0 if v != v else v) for v in item]",
        "return [null if v is None else (v == v, 0 if v != v else v) for v in item]",
        "top_n puts NaN last, though it is the largest value.",
        _VALUE,
    ),
    Mutation(
        "retractions of forgotten keys whose windows come out anew",
        "emitted = [*(rows.without(emitted) for rows in retracting), *emitted]",
        "emitted = [*retracting, *emitted]",
        "A forgotten key has a new record in the same batch, and its window comes out twice, once retracted.",
        _TIMERS,
    ),
    Mutation(
        "estimates of distinct values in long windows",
        "of_rows(np.maximum(level[lo[some]], level[hi[some] - width]))",
        "of_rows(level[lo[some]])",
        "approx_count_distinct is right in short windows, and far too small in long ones.",
        _VALUE,
    ),
    Mutation(
        "copies that another process holds when keys are forgotten",
        "if lock != own and not _remove_free(lock, 0.0):",
        "if lock != own and _remove_free(lock, 0.0):",
        "A request to forget a key is done, but a file of local state on a worker has its bytes for days.",
        _FORGOTTEN,
    ),
    Mutation(
        "requests whose last bucket was killed",
        "                elif label == 0:",
        "                elif label < 0:",
        "All buckets have applied a request, but its file still has the keys.",
        _FORGOTTEN,
    ),
    Mutation(
        "history that lacks a record",
        "            same &= mine == other\n",
        "            same |= mine == other\n",
        "An aggregate that was filled from history lacks a record, and the history was not refused.",
        _ADDED,
    ),
    Mutation(
        "records that came after the history's end",
        "                column[counts] = states[number][n][counts]\n",
        "                column[counts] = states[number][n][counts][::-1]\n",
        "An aggregate that was filled from history has the values of other windows where the query had counted itself.",
        _ADDED,
    ),
    Mutation(
        "since when a pane has all its records",
        "latest = max(latest, int(times.max()) + plan.longest_pane - 1) if len(times) else latest",
        "latest = max(latest, int(times.max())) if len(times) else latest",
        "A window begins after the time since when an aggregate is said to be complete, and lacks records all the same.",
        _ADDED,
    ),
    Mutation(
        "since when all results of a row count",
        "return replace(self, ticks=max(times, default=None))",
        "return replace(self, ticks=min(times, default=None))",
        "with_since says that a row is complete, and the aggregate that was added last lacks records.",
        _ADDED,
    ),
    Mutation(
        "columns that rows that wait lose",
        'yield "dropped", prefix + name, type_, type_',
        'yield "", prefix + name, type_, type_',
        "A column upstream was gone by mistake, and rows that had waited came out without it, though nobody had agreed.",
        _WAITING,
    ),
    Mutation(
        "which entries have rows that wait",
        "        at = np.flatnonzero(counts > 0)\n",
        "        at = np.flatnonzero(counts > 1)\n",
        "After a column was added, some rows that had waited cannot be read.",
        _WAITING,
    ),
    Mutation(
        "the times of records of the future as they came",
        "df.withColumns({GIVEN_TIME: given, event_time: known})",
        "df.withColumns({GIVEN_TIME: known, event_time: known})",
        "The report of a record of the future says that it has no event time.",
        _LATE,
    ),
    Mutation(
        "whose window an error names",
        "error.window = replace(error.window, key=keys[error.window.key])",
        "error.window = replace(error.window, key=keys[0])",
        "The error of a fold's merge names a key whose records are all right.",
        _BLAMED,
    ),
    Mutation(
        "errors of readers and of stopped queries",
        '        raise AggregateError(f"{error}{text}") from error.__cause__',
        '        raise AggregateError(f"{error}") from error.__cause__',
        "The error of a function does not say for which window it was called.",
        _BLAMED,
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
    for chosen in TURNS:
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
