"""Targets, and whether a run reaches them. Targets are ratios of figures of the same run."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from benchmarks.report.figures import NotMeasured, Run

NOT_MEASURED = "not measured in this run"
PER_WINDOW = 10, 100, 1_000, 10_000
SLIDING = "sliding windows, local"
ROLLING = "rolling windows, local"
KIP450 = "panes beside KIP-450"
KEYS = "number of keys"
MANY_KEYS = "10 million live keys"
THROUGH = "streaming: pass-through"
OWN = "Spark's own"


@dataclass(frozen=True, slots=True)
class Target:
    """A bound for a number of a run.

    Attributes:
        group: title of a group of targets.
        what: name of the number.
        bound: the bound.
        at_least: whether it is a lower bound, otherwise an upper bound.
        found: returns the number of a run; raises NotMeasured.
        unit: unit of the number.
    """

    group: str
    what: str
    bound: float
    at_least: bool
    found: Callable[[Run], float]
    unit: str = "x"


@dataclass(frozen=True, slots=True)
class Judged:
    """A target and the number of a run; `reached` is None if the run does not have the figures."""

    target: Target
    reached: float | None

    @property
    def verdict(self) -> str:
        """The result as text."""
        if self.reached is None:
            return NOT_MEASURED
        target = self.target
        met = self.reached >= target.bound if target.at_least else self.reached <= target.bound
        return "met" if met else "missed"


def judged(run: Run) -> list[Judged]:
    """Return all targets with the numbers of the run."""
    return [Judged(target, _found(target, run)) for target in targets()]


def _found(target: Target, run: Run) -> float | None:
    try:
        return target.found(run)
    except NotMeasured:
        return None


def targets() -> Iterator[Target]:
    """All targets, grouped."""
    groups = (_sliding, _rolling, _kip450, _state, _many_keys, _touched, _streams, _small, _beside_own)
    for group in groups:
        yield from group()


def _sliding() -> Iterator[Target]:
    group = "Sliding windows without Spark, memory, 100 keys"
    for n in PER_WINDOW:
        yield Target(group, f"records/s, of polars', {n:,} per window", 0.35, True, _vs("polars", n))
    what = "fastest over slowest, from 10 to 10,000 per window"
    yield Target(group, what, 1.3, False, _spread)
    for n, bound in ((10, 200), (1_000, 10_000)):
        what = f"records/s, of Quix Streams', {n:,} per window"
        yield Target(group, what, bound, True, _vs("Quix Streams", n))


def _rolling() -> Iterator[Target]:
    group = "Rolling windows without Spark, memory, 100 keys"
    found = _ratio(ROLLING, "memory", "polars", lookbacks=3)
    yield Target(
        group, "records/s, of polars', three lookbacks: 15 results beside each record", 0.7, True, found
    )
    yield Target(group, "time of three lookbacks, of that of the longest alone", 1.6, False, _lookbacks)


def _kip450() -> Iterator[Target]:
    group = "Panes compared with KIP-450 as specified, same store, same language"
    for way, words in (("KIP-450", "on columns"), ("KIP-450 in Python", "record by record, in plain Python")):
        for n, bound in ((10, 10), (1_000, 500)):
            what = f"records/s, of KIP-450's {words}, {n:,} per window"
            yield Target(group, what, bound, True, _ratio(KIP450, "panes", way, per_window=n))


def _state() -> Iterator[Target]:
    group = "State"
    for keys, least in ((100, 0.7), (100_000, 0.35)):
        what = f"records/s on rocksdb, of memory's, {keys:,} keys touched in each batch"
        yield Target(group, what, least, True, _ratio(KEYS, "rocksdb", "memory", keys=keys))
    what = "time per batch with 1 million idle keys, of that with 10 thousand"
    yield Target(group, what, 1.5, False, _idle)
    what = "resident memory of a worker with 10 million live keys on rocksdb"
    yield Target(group, what, 1_500, False, _resident, unit="MB")


def _many_keys() -> Iterator[Target]:
    group = "Millions of keys on rocksdb, one worker, batches of 100,000 random keys"
    for stage, words, most in (("steady", "a row", 14), ("growing", "a row that brings a new key", 6)):
        found = _beside(MANY_KEYS, "processor_us_a_row", keys=2_000_000, stage=stage)
        yield Target(group, f"2 million keys: processor time, {words}", most, False, found, unit="µs")
    found = _beside(MANY_KEYS, "lookups_a_row", keys=2_000_000, stage="steady")
    yield Target(group, "2 million keys: look-ups in the backend, a row", 2.5, False, found, unit="")
    for stage, words, least in (("growing", "while keys arrive", 200_000), ("steady", "steady", 100_000)):
        yield Target(group, f"10 million keys: rows/s {words}", least, True, _rows_of(stage), unit="")
    what = "10 million keys: restart until the end of the first batch"
    yield Target(group, what, 6, False, _seconds_of("restart"), unit="s")
    for kind in ("tumbling", "session"):
        what = f"10 million keys on Spark: rows/s compared with Spark's own {kind} windows"
        found = _ratio(f"many keys on Spark: {kind}", "rocksdb", OWN, keys=10_000_000)
        yield Target(group, what, 3, True, found)


def _touched() -> Iterator[Target]:
    group = "Batches of many records a key, memory, processor time"
    what = "100,000 keys all touched, tumbling windows, batches of 250,000: a row"
    yield Target(group, what, 1, False, _microseconds("100,000 keys in each batch", kind="tumbling"), "µs")
    for kind in ("tumbling", "hopping", "session", "sliding"):
        what = f"half of all records of one key, {kind} windows, of the same records spread out"
        yield Target(group, what, 1.5, False, _hot(kind))


def _streams() -> Iterator[Target]:
    group = "Streams on Spark, 500,000 rows per batch, memory, time less that of an empty batch"
    for kind, floor, most in (
        ("tumbling", "pass-through", 2.5),
        ("sliding", "pass-through", 5),
        ("sliding", "pass-through, rows doubled", 2.5),
        ("rolling", "pass-through, rows as wide", 2),
    ):
        yield Target(group, f"{kind} windows, of {floor}", most, False, _above_floor(kind, floor))


def _small() -> Iterator[Target]:
    group = "Batches of 2,000 rows on Spark, time compared with Spark's own windows on the same state store provider"
    for kind in ("tumbling", "session"):
        found = _times(f"small batches: {kind} windows", "memory", OWN, buckets=2)
        yield Target(group, f"{kind} windows, two buckets", 1.1, False, found)
        found = _times(f"small batches: {kind} windows", "memory", "a processor that counts", buckets=2)
        what = f"{kind} windows, two buckets, of a processor of PySpark's that only counts"
        yield Target(group, what, 1.15, False, found)
        what = f"{kind} windows, each bucket more, from 2 to 64, of each shuffle partition more"
        yield Target(group, what, 1.2, False, _each_bucket(kind))


def _beside_own() -> Iterator[Target]:
    group = "On Spark, rows/s compared with Spark's own windows"
    for kind, how, least in (
        ("hopping", "batch", 10),
        ("hopping", "streaming", 10),
        ("tumbling", "batch", 0.7),
        ("tumbling", "streaming", 1),
        ("session", "batch", 1.5),
        ("session", "streaming", 2),
    ):
        what = f"{kind} windows, {how}" + (", an advance of 1 %" if kind == "hopping" else "")
        yield Target(group, what, least, True, _ratio(f"{how}: {kind} windows", "memory", OWN))
    for n, least in ((10, 1), (1_000, 10)):
        what = f"sliding windows, batch, compared with rangeBetween, {n:,} per window"
        found = _ratio("batch: sliding windows", "memory", OWN, per_window=n)
        yield Target(group, what, least, True, found)
    for kind in ("tumbling", "session"):
        what = f"state of a history, all {kind} windows open, compared with their rows"
        yield Target(group, what, 0.4, True, _history(kind))
    what = "rolling windows, batch, compared with rangeBetween over the same three lookbacks"
    yield Target(group, what, 2, True, _ratio("batch: rolling windows", "memory", OWN))


def _ratio(section: str, system: str, other: str, **axes: int) -> Callable[[Run], float]:
    return lambda run: run.one(section, system, **axes).rate / run.one(section, other, **axes).rate


def _times(section: str, system: str, other: str, **axes: int) -> Callable[[Run], float]:
    return lambda run: run.one(section, system, **axes).seconds / run.one(section, other, **axes).seconds


def _each_bucket(kind: str) -> Callable[[Run], float]:
    """What each bucket adds to the time of a batch, as a multiple of what each shuffle partition adds to Spark's own."""

    def added(run: Run, system: str) -> float:
        few, many = (run.one(f"small batches: {kind} windows", system, buckets=n) for n in (2, 64))
        return many.seconds - few.seconds

    return lambda run: added(run, "memory") / added(run, OWN)


def _history(kind: str) -> Callable[[Run], float]:
    def found(run: Run) -> float:
        state = run.one("batch: state of a history", f"{kind}, all windows open")
        return state.rate / run.one(f"batch: {kind} windows", "memory").rate

    return found


def _vs(other: str, per_window: int) -> Callable[[Run], float]:
    return _ratio(SLIDING, "memory", other, per_window=per_window, keys=100)


def _spread(run: Run) -> float:
    rates = [run.one(SLIDING, "memory", per_window=n, keys=100).rate for n in PER_WINDOW]
    return max(rates) / min(rates)


def _lookbacks(run: Run) -> float:
    three, one = (run.one(ROLLING, "memory", lookbacks=n, keys=100) for n in (3, 1))
    return three.seconds / one.seconds


def _idle(run: Run) -> float:
    many, few = (run.one("idle keys", "memory", idle=idle) for idle in (1_000_000, 10_000))
    return many.seconds / few.seconds


def _resident(run: Run) -> float:
    found = run.of(MANY_KEYS, keys=10_000_000)
    if not found:
        raise NotMeasured(MANY_KEYS)
    return max(float(figure.extra["resident_mb"]) for figure in found)


def _beside(section: str, name: str, **axes: Any) -> Callable[[Run], float]:
    def found(run: Run) -> float:
        for figure in run.of(section, **axes):
            if name in figure.extra:
                return float(figure.extra[name])
        raise NotMeasured(f"{section}: {name}")

    return found


def _rows_of(stage: str) -> Callable[[Run], float]:
    return lambda run: run.one(MANY_KEYS, "rocksdb", keys=10_000_000, stage=stage).rate


def _seconds_of(stage: str) -> Callable[[Run], float]:
    return lambda run: run.one(MANY_KEYS, "rocksdb", keys=10_000_000, stage=stage).seconds


def _microseconds(section: str, **axes: Any) -> Callable[[Run], float]:
    return lambda run: 1e6 / run.one(section, "memory", **axes).rate


def _hot(kind: str) -> Callable[[Run], float]:
    def found(run: Run) -> float:
        hot, spread = (
            run.one("one hot key", "memory", kind=kind, records=records)
            for records in ("half of one", "spread")
        )
        return hot.seconds / spread.seconds

    return found


def _above_floor(kind: str, floor: str) -> Callable[[Run], float]:
    def found(run: Run) -> float:
        figures = run.of(f"streaming: {kind} windows")
        ours = [figure.above_empty for figure in figures if figure.system == "memory"]
        if not ours:
            raise NotMeasured(f"streaming: {kind} windows")
        return max(ours) / run.one(THROUGH, floor).above_empty

    return found
