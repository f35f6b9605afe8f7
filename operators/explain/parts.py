"""What an explanation consists of, as frozen values."""

from dataclasses import dataclass

from operators.runtime.closing import Closing
from operators.runtime.program import Program
from serializers import pack_value
from state_backends import StateConfig

_USUAL_ENTRIES = 1_000


@dataclass(frozen=True, slots=True)
class WindowsPart:
    """An operator in time.

    Attributes:
        title: the kind and its lengths.
        bounds: which windows there are.
        late: which records are late.
        closes: when a window is final, or what timers do.
        entry: what an entry of the store stands for.
        entries: several of these, as a noun.
        since: the time from which on an entry is needed.
        needed_us: for how long, in microseconds of close time; None if that is not known beforehand.
        spacing_us: from one entry to the next of a key that has records all the time; None where it depends on the records.
        lone: whether a key has one entry at a time as a rule.
    """

    title: str
    bounds: str
    late: str
    closes: str
    entry: str
    entries: str
    since: str
    needed_us: int | None
    spacing_us: int | None = None
    lone: bool = False


@dataclass(frozen=True, slots=True)
class Strategy:
    """A way to compute windows.

    Attributes:
        name: such as "deducting".
        cost: of a window of n panes.
        why: what it does, and what allows it.
    """

    name: str
    cost: str
    why: str


@dataclass(frozen=True, slots=True)
class AggregatePart:
    """A result and how it is computed.

    Attributes:
        name: of the result.
        type: of the result, as Arrow names it.
        states: the states that it is made from, as text; several results may share one.
        strategy: the dearest of those of its states.
        change: what would make another strategy possible, or None.
    """

    name: str
    type: str
    states: tuple[str, ...]
    strategy: Strategy
    change: str | None


@dataclass(frozen=True, slots=True)
class StatePart:
    """What an operator stores.

    A page is all entries of a key in a segment: a header, a row for each entry, and the objects of all of them as msgpack.

    Attributes:
        head: name and kind of each column before the states, the time first.
        states: what each aggregate's state is, with name and page code ("i8", "f8", "object") of each of its columns.
        row_bytes: of an entry, without objects; also of a page's header.
        objects: number of columns of objects.
        object_bytes: of an entry's objects, `TYPICAL` ones, by the number of records in it; for what a user's functions make,
            of an empty state; None where nothing is known.
        taken: what these objects are taken to be.
        segment_us: length of a segment in microseconds.
        needed_us: how long an entry is needed from `WindowsPart.since` on, in microseconds of stream time, grace included; None
            if that is not known beforehand. It may then stay for a segment more, since whole segments go.
        spacing_us: as in `WindowsPart`.
        lone: likewise.
    """

    head: tuple[tuple[str, str], ...]
    states: tuple[tuple[str, tuple[tuple[str, str], ...]], ...]
    row_bytes: int
    objects: int
    object_bytes: dict[int, int] | None
    taken: str
    segment_us: int
    needed_us: int | None
    spacing_us: int | None
    lone: bool

    def entry_bytes(self, records: int = 1) -> int:
        """Return the bytes of an entry with 1 or 100 records, without what is unknown of its objects."""
        return self.row_bytes + (0 if self.object_bytes is None else self.object_bytes[records])

    @property
    def grows(self) -> bool:
        """Whether an entry grows with the number of its records."""
        return self.object_bytes is not None and len(set(self.object_bytes.values())) > 1

    @property
    def entries(self) -> tuple[int, int]:
        """How many entries a key has: between two numbers if it has records all the time; else so many as are told of."""
        if self.lone:
            return 1, 1
        if self.spacing_us is None or self.needed_us is None:
            return _USUAL_ENTRIES, _USUAL_ENTRIES
        spans = self.needed_us, self.needed_us + self.segment_us
        least, most = (-(-span // self.spacing_us) for span in spans)
        return least, most

    def pages(self, entries: int) -> int:
        """Return in how many pages so many entries of a key are, spread over the time for which they are needed."""
        if self.needed_us is None:
            return 1
        return min(entries, (self.needed_us - 1) // self.segment_us + 1)

    def key_bytes(self, entries: int, pages: int | None = None) -> int:
        """Return the bytes of so many entries of a key, each with one record.

        Args:
            entries: the number of entries.
            pages: in which they are; by default as many as `pages` says.
        """
        pages = self.pages(entries) if pages is None else pages
        each = -(-entries // pages)
        # A page's objects are a list of one list for each column.
        lists = 1 + self.objects * (len(pack_value([None] * each)) - each) if self.objects else 0
        return pages * (self.row_bytes + lists) + entries * self.entry_bytes()


@dataclass(frozen=True, slots=True)
class StagePart:
    """The first stage of an operator on Spark.

    Attributes:
        way: "engine": Spark's generated code accumulates; "python": Python workers do; "rows": nobody does; "adaptive": each
            task does where it makes its first rows much fewer.
        text: what is sent, and why.
    """

    way: str
    text: str


@dataclass(frozen=True, slots=True)
class Parts:
    """What an operator does with a frame, and why.

    Attributes:
        windows: how its windows lie in time.
        aggregates: how each result is computed; none for an operator of one's own.
        state: what is stored.
        bounded: what a bounded frame sends through Spark's shuffle; None for a stream.
        streamed: what a stream sends; None for a bounded frame of Spark.
        program: the operator bound to the frame, as it runs on it.
        config: backend and options in effect.
        buckets: number of buckets of a stream; None if it is Spark's number of shuffle partitions, and that is not known.
        closing: how the close times of a stream of Spark follow from its watermark; None for other frames.
    """

    windows: WindowsPart
    aggregates: tuple[AggregatePart, ...]
    state: StatePart
    bounded: StagePart | None
    streamed: StagePart | None
    program: Program
    config: StateConfig
    buckets: int | None
    closing: Closing | None = None
