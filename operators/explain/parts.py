"""The parts of an explanation, as frozen values."""

from dataclasses import dataclass
from itertools import pairwise

from operators.aggregates.strategy import Strategy
from operators.kinds.described import WindowsPart
from operators.runtime.binding import Binding
from operators.runtime.watermark_rule import WatermarkRule
from serializers import pack_value
from state_backends import StateConfig
from state_backends.store.cutting import PAGE_ENTRIES

_USUAL_ENTRIES = 1_000


@dataclass(frozen=True, slots=True)
class AggregatePart:
    """A result and how it is computed.

    Attributes:
        name: name of the result.
        type: Arrow's name of its type.
        states: the states that it is computed from, as functions of users, such as 'sum("v")'; results may share states.
        strategy: the most expensive strategy of its states.
        change: what would allow another strategy, or None.
        since: when it was added later: the event time from which on it counts all records, as text; otherwise None.
        result: the name that the user gave it, without those of lookbacks.
    """

    name: str
    type: str
    states: tuple[str, ...]
    strategy: Strategy
    change: str | None
    since: str | None = None
    result: str = ""


@dataclass(frozen=True, slots=True)
class StatePart:
    """The state of an operator.

    A page holds up to `PAGE_ENTRIES` entries of a key in a segment: a header, a row for each entry, and the objects of all
    entries as msgpack.

    Attributes:
        head: name and kind of each column before the states, the time first.
        states: text of each state, with name and page code ("i8", "f8", "object") of each of its columns.
        row_bytes: bytes of an entry without objects; also those of the header of a page.
        objects: number of columns of objects.
        object_bytes: estimated bytes of the objects of an entry, by the number of records in it. For custom functions, those of
            an initial state. None if nothing is known.
        assumed: the values that the estimate assumes.
        segment_us: length of a segment in microseconds.
        needed_us: how long an entry is needed after `WindowsPart.since`, in microseconds of stream time, including grace; None
            if that is not known beforehand. It is kept up to one segment longer, since whole segments are dropped.
        spacing_us: as in `WindowsPart`.
        lone: as in `WindowsPart`.
    """

    head: tuple[tuple[str, str], ...]
    states: tuple[tuple[str, tuple[tuple[str, str], ...]], ...]
    row_bytes: int
    objects: int
    object_bytes: dict[int, int] | None
    assumed: str
    segment_us: int
    needed_us: int | None
    spacing_us: int | None
    lone: bool

    def entry_bytes(self, records: int = 1) -> int:
        """Return the bytes of an entry with 1 or 100 records, without objects of unknown size."""
        return self.row_bytes + (0 if self.object_bytes is None else self.object_bytes[records])

    @property
    def grows(self) -> bool:
        """Whether the size of an entry grows with the number of its records."""
        return self.object_bytes is not None and len(set(self.object_bytes.values())) > 1

    @property
    def entries(self) -> tuple[int, int]:
        """The least and the largest number of entries of a key with records all the time; 1,000 if that is not known."""
        if self.lone:
            return 1, 1
        if self.spacing_us is None or self.needed_us is None:
            return _USUAL_ENTRIES, _USUAL_ENTRIES
        spans = self.needed_us, self.needed_us + self.segment_us
        least, most = (-(-span // self.spacing_us) for span in spans)
        return least, most

    def pages(self, entries: int) -> int:
        """Return the number of pages of `entries` entries of a key, evenly distributed over the time that they are kept."""
        if self.needed_us is None:
            return -(-entries // PAGE_ENTRIES)
        segments = (self.needed_us - 1) // self.segment_us + 1
        if segments >= entries:
            return entries
        before = [-(-n * self.segment_us * entries // self.needed_us) for n in range(segments)]
        return sum(-(-(end - begin) // PAGE_ENTRIES) for begin, end in pairwise([*before, entries]))

    def key_bytes(self, entries: int, pages: int | None = None) -> int:
        """Return the bytes of `entries` entries of a key with one record each.

        Args:
            entries: number of entries.
            pages: number of their pages; by default that of the method `pages`.
        """
        pages = self.pages(entries) if pages is None else pages
        each = -(-entries // pages)
        # A page's objects are a list of one list for each column.
        lists = 1 + self.objects * (len(pack_value([None] * each)) - each) if self.objects else 0
        return pages * (self.row_bytes + lists) + entries * self.entry_bytes()

    @property
    def changed_bytes(self) -> tuple[int, int]:
        """What the backend gets for one changed entry of a key: the least, and the most, a full page that is cut in two."""
        least = self.key_bytes(1, 1)
        return least, least if self.lone else self.key_bytes(PAGE_ENTRIES + 1, 2)

    @property
    def logged_bytes(self) -> int:
        """What the changelog gets for it, beside the key: the entry and a header."""
        return self.key_bytes(1, 1)


@dataclass(frozen=True, slots=True)
class StagePart:
    """The first stage of an operator on Spark.

    Attributes:
        way: "engine": partial aggregation in Spark's generated code; "python": partial aggregation in Python workers; "rows":
            no partial aggregation; "adaptive": each task uses it if it makes its first rows much fewer.
        text: what is sent, and why.
    """

    way: str
    text: str


@dataclass(frozen=True, slots=True)
class Parts:
    """What an operator does with a frame, and why.

    Attributes:
        windows: the windows and their times.
        aggregates: how each result is computed; empty for a custom operator.
        state: what is stored.
        bounded: what a bounded frame sends through Spark's shuffle; None for a stream.
        streamed: what a stream sends; None for a bounded Spark DataFrame.
        binding: the operator, bound to the columns of the frame.
        config: effective backend and options.
        buckets: number of buckets of a stream; None if it is Spark's number of shuffle partitions, which is not known.
        watermark_rule: how the close times of a Spark stream follow from its watermark; None for other frames.
    """

    windows: WindowsPart
    aggregates: tuple[AggregatePart, ...]
    state: StatePart
    bounded: StagePart | None
    streamed: StagePart | None
    binding: Binding
    config: StateConfig
    buckets: int | None
    watermark_rule: WatermarkRule | None = None
