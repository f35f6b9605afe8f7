"""The part of a pointer about the operator: enough to continue with it, and to read its state without it."""

from dataclasses import dataclass
from typing import Any

from serializers import CorruptDataError
from serializers.shapes import count, instance, int64, refusing, short
from state_backends.store.schema import StoredSchema

_FURTHER = 4
"""Position of the number of further pages in what is said of a segment."""
FAR_PAST = -(2**61)
"""A close time in ticks that is before all times: nothing is closed."""


def close_time_at(watermark_ms: int, behind_us: int, tick_us: int) -> int:
    """Return the close time in ticks that follows from a watermark of Spark.

    Args:
        watermark_ms: starts at 0, which means unknown, and stays there while all events are before 1970.
        behind_us: how far the close time is behind the first instant after the watermark, in microseconds.
        tick_us: length of a tick in microseconds.
    """
    return FAR_PAST if watermark_ms <= 0 else ((watermark_ms + 1) * 1_000 - behind_us) // tick_us


@dataclass(frozen=True, slots=True)
class Progress:
    """How far an operator has come. A fresh pointer has an empty progress.

    The host of an operator, a streaming query or a local runner, adds what it needs to continue.

    Attributes:
        identity: what the state depends on, as the operator describes it.
        schema: the columns of the stored entries.
        close_time: the close time reached, in ticks; FAR_PAST before the first batch.
        usage: how much each segment holds, as `StoreUsage.plain` returns it.
        keys: how many distinct keys have entries, as far as the operator knew.
        buckets: the number of a query's buckets; None for a local runner.
        timer: a query's event-time timer that is set for the bucket, in milliseconds, or None.
        last_active_ms: for a query that closes windows by the clock, when it last got records, in milliseconds since the epoch.
        last_clock_ms, last_watermark_ms: for such a query, if the operator reads the rows of another one, the clock and the
            watermark of the last batch, in milliseconds.
        behind: for a query whose records come straight from a source, how far its close time is behind Spark's watermark, in
            microseconds, as `close_time_at` takes it. None for an operator that reads the rows of another one: what is late
            follows from the watermark of the batch before, so that its own close time counts.
        stream_time: for a local runner, the stream time in ticks, or None before the first record.
        max_event_time: for a local runner, the highest event time in ticks, or None before the first record; for several
            inputs, the least of theirs, or None until each has had a record.
        inputs: for several inputs, the highest event time in ticks of each that has had a record, by name.
        sequence: number of the next batch, which the rows of the operator carry if later ones may replace them. It goes on from
            that of a savepoint.
        forgotten: the number of the last request to forget keys that a query's bucket has applied, or 0.
        since: the time from which states that were added later count all records, in ticks, by name.
    """

    identity: dict[str, Any] | None = None
    schema: StoredSchema | None = None
    close_time: int = FAR_PAST
    usage: list[list[int]] | None = None
    keys: int = 0
    buckets: int | None = None
    timer: int | None = None
    last_active_ms: int | None = None
    last_clock_ms: int | None = None
    last_watermark_ms: int | None = None
    behind: int | None = None
    stream_time: int | None = None
    max_event_time: int | None = None
    inputs: dict[str, int] | None = None
    sequence: int = 0
    forgotten: int = 0
    since: dict[str, int] | None = None

    @property
    def since_ms(self) -> int:
        """From which time on all states count all records, in milliseconds; 0 if none was added later."""
        tick_us = 0 if self.schema is None else self.schema.tick_us
        return max([0, *(self.since or {}).values()]) * tick_us // 1_000

    @property
    def has_further_pages(self) -> bool:
        """Whether any key has several pages in a segment."""
        return any(len(held) > _FURTHER for held in self.usage or ())

    def plain(self) -> dict[str, Any]:
        """Return the progress as values that can be packed. Keys and their order are part of the pointer's format."""
        if self == Progress():
            return {}
        if self.buckets is None:
            host = {"stream_time": self.stream_time, "highest": self.max_event_time}
        else:
            host = {"buckets": self.buckets, "timer": self.timer}
        operator = {
            "identity": self.identity,
            "schema": None if self.schema is None else self.schema.plain(),
            "close": self.close_time,
            "usage": self.usage,
        }
        later = {
            "active": self.last_active_ms,
            "clock": self.last_clock_ms,
            "watermark": self.last_watermark_ms,
            "sequence": self.sequence or None,
            "keys": self.keys or None,
            "behind": self.behind,
            "inputs": self.inputs,
            "forgotten": self.forgotten or None,
            "since": self.since or None,
        }
        return _without_none(operator) | host | _without_none(later)

    @classmethod
    def from_plain(cls, plain: Any) -> "Progress":
        """Return the progress that `plain` wrote. Unknown keys are ignored.

        Raises:
            CorruptDataError: the value is not a progress.
        """
        if not isinstance(plain, dict):
            raise CorruptDataError(f"the progress in a state pointer is {short(plain)}, not a mapping")
        with refusing("the progress in a state pointer"):
            schema, identity, usage = (plain.get(name) for name in ("schema", "identity", "usage"))
            return cls(
                identity=None if identity is None else instance(dict, identity),
                schema=None if schema is None else checked_schema(schema),
                close_time=int64(plain.get("close", FAR_PAST)),
                usage=None if usage is None else [_usage(*held) for held in instance(list, usage)],
                buckets=_optional(plain.get("buckets")),
                timer=_optional(plain.get("timer")),
                last_active_ms=_optional(plain.get("active")),
                last_clock_ms=_optional(plain.get("clock")),
                last_watermark_ms=_optional(plain.get("watermark")),
                behind=_optional(plain.get("behind")),
                stream_time=_optional(plain.get("stream_time")),
                max_event_time=_optional(plain.get("highest")),
                inputs=checked_inputs(plain.get("inputs")),
                sequence=count(plain.get("sequence", 0)),
                keys=count(plain.get("keys", 0)),
                forgotten=count(plain.get("forgotten", 0)),
                since=checked_inputs(plain.get("since")),
            )


def checked_inputs(plain: Any) -> dict[str, int] | None:
    """Return the highest event times of inputs by name, or None for those of an operator with one.

    Raises:
        CorruptDataError, ValueError, TypeError: the value is no mapping of names to times.
    """
    if plain is None:
        return None
    return {instance(str, name): int64(time) for name, time in instance(dict, plain).items()}


def checked_schema(plain: Any) -> StoredSchema:
    """Return the columns of stored entries that `StoredSchema.plain` described.

    Raises:
        CorruptDataError, ValueError, TypeError, LookupError: the value does not describe such columns.
    """
    try:
        schema = StoredSchema.from_plain(plain)
    except OSError as error:  # of Arrow's, about its own bytes
        raise CorruptDataError(f"the description of the stored columns is invalid: {error}") from error
    _ = schema.layout  # of codes that there are
    if min(count(schema.tick_us), count(schema.segment)) < 1:
        raise ValueError(f"ticks of {schema.tick_us} us, segments of {schema.segment} ticks")
    int64(schema.grace)
    return schema


def _usage(segment: Any, pages: Any, entries: Any, size: Any, *further: Any) -> list[int]:
    if len(further) > 1:
        raise ValueError(f"{4 + len(further)} numbers about a segment")
    return [int64(segment), count(pages), count(entries), count(size), *map(count, further)]


def _optional(value: Any) -> int | None:
    return None if value is None else int64(value)


def _without_none(values: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}
