"""What a store's entries are, told without the operator that wrote them: enough to read state, and to move it."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from serializers import CorruptDataError, decode_keys, pack_value
from serializers.pages import Column, PageLayout

TIME, NUMBER = "time", "number"
_ARROW = {"i8": pa.int64(), "f8": pa.float64(), "object": pa.string()}
_LAST_SECOND = 253_402_300_799
"""The end of the year 9999, which Spark's and Python's timestamps end with."""


@dataclass(frozen=True, slots=True)
class StoredState:
    """One aggregate's state in an entry.

    Attributes:
        name: the aggregate as text; states of equal names are equal in form.
        parts: name and page code of each of its columns.
    """

    name: str
    parts: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class StoredSchema:
    """The columns of an entry.

    Attributes:
        keys: the key columns.
        tick_us: length of a tick in microseconds.
        segment: length of a segment in ticks.
        grace: of the windows, in ticks.
        head: name and kind, TIME or NUMBER, of each column before the states.
        states: the states.
    """

    keys: pa.Schema
    tick_us: int
    segment: int
    grace: int
    head: tuple[tuple[str, str], ...]
    states: tuple[StoredState, ...]

    @property
    def layout(self) -> PageLayout:
        """The layout of a page."""
        codes = [code for state in self.states for _, code in state.parts]
        return PageLayout((*["i8"] * len(self.head), *codes))

    def plain(self) -> dict[str, Any]:
        """Return the schema as values that can be packed, or written as JSON but for the keys."""
        return {
            "keys": self.keys.serialize().to_pybytes(),
            "tick_us": self.tick_us,
            "segment": self.segment,
            "grace": self.grace,
            "head": [list(column) for column in self.head],
            "states": [[state.name, [list(part) for part in state.parts]] for state in self.states],
        }

    @classmethod
    def of(cls, plain: Any) -> "StoredSchema":
        """Return the schema that `plain` told.

        Raises:
            CorruptDataError: it is none.
        """
        try:
            return cls(
                pa.ipc.read_schema(pa.py_buffer(plain["keys"])),
                plain["tick_us"],
                plain["segment"],
                plain["grace"],
                tuple((name, kind) for name, kind in plain["head"]),
                tuple(
                    StoredState(name, tuple((part, code) for part, code in parts))
                    for name, parts in plain["states"]
                ),
            )
        except (KeyError, TypeError, ValueError, pa.ArrowException) as error:
            raise CorruptDataError(f"a state whose columns are not told, or not so: {error}") from error

    @property
    def readable(self) -> pa.Schema:
        """The columns of `table`."""
        head = [pa.field(name, _head_type(kind)) for name, kind in self.head]
        states = [
            pa.field(state.name, pa.struct([pa.field(part, _ARROW[code]) for part, code in state.parts]))
            for state in self.states
        ]
        return pa.schema([*self.keys, *head, *states])

    def table(self, keys: Sequence[bytes], key: Column, columns: Sequence[Column]) -> pa.Table:
        """Return entries for people: keys decoded, times as timestamps, states as structs, objects as JSON.

        Args:
            keys: distinct keys, encoded.
            key: shape (n,), int64: positions in `keys`.
            columns: one of length n for each of the layout.
        """
        rows = pa.array(key)
        arrays = [column.take(rows) for column in decode_keys(keys, self.keys.types)]
        for (_, kind), column in zip(self.head, columns, strict=False):
            arrays.append(self.instants(column) if kind == TIME else pa.array(column))
        at = len(self.head)
        for state in self.states:
            parts = [
                _told(column, code)
                for (_, code), column in zip(state.parts, columns[at : at + len(state.parts)], strict=True)
            ]
            arrays.append(pa.StructArray.from_arrays(parts, names=[name for name, _ in state.parts]))
            at += len(state.parts)
        return pa.Table.from_arrays(arrays, schema=self.readable)

    def instants(self, ticks: Column) -> pa.Array:
        """Return ticks as timestamps; those that stand for no time are null."""
        seconds = np.asarray(ticks, np.float64) * (self.tick_us / 1e6)
        none = np.abs(seconds) > _LAST_SECOND
        micros = np.where(none, 0, ticks) * self.tick_us
        return pa.array(micros, pa.int64(), mask=none).cast(pa.timestamp("us", "UTC"))


def _head_type(kind: str) -> pa.DataType:
    return pa.timestamp("us", "UTC") if kind == TIME else pa.int64()


def _told(column: Column, code: str) -> pa.Array:
    if code != "object":
        return pa.array(column, _ARROW[code])
    return pa.array([None if value is None else _json(value) for value in column.tolist()], pa.string())


def _json(value: Any) -> str:
    return json.dumps(value, default=_text, ensure_ascii=False)


def _text(value: Any) -> Any:
    """What JSON has no form for: bytes in hex, other values as text."""
    return value.hex() if isinstance(value, bytes) else str(value)


def packed(column: Column) -> list[bytes]:
    """Return each value of a column of objects as bytes, as pages have them."""
    return [pack_value(value) for value in column.tolist()]
