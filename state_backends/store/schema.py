"""The columns of a store's entries, described without the operator that wrote them: enough to read and to move state."""

import json
import math
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, count
from typing import Any

import numpy as np
import pyarrow as pa

from serializers import CorruptDataError, decode_keys
from serializers.arrays import take_values
from serializers.pages import Column, PageLayout
from serializers.schemas import read_schema
from serializers.shapes import short

TIME, NUMBER, FLOAT, VALUE = "time", "number", "float", "value"
"""Kinds of stored columns that are not states: ticks, int64, float64, or a value as msgpack has it."""
_CODES = {TIME: "i8", NUMBER: "i8", FLOAT: "f8", VALUE: "object"}
_ARROW = {"i8": pa.int64(), "f8": pa.float64(), "object": pa.string()}
_SINCE = re.compile("(.*) since ([0-9]{1,18})", re.DOTALL)
_FIRST_US, _END_US = -62_135_596_800_000_000, 253_402_300_800_000_000
"""From the year 1 to before the year 10000: what Spark's and Python's timestamps can be."""


def name_since(name: str, since: int) -> str:
    """Return the name of a state that began later than one of this name."""
    return f"{name} since {since}"


def name_and_since(name: str) -> tuple[str, int]:
    """Return the arguments of `name_since`; a state that was there from the beginning has the number 0."""
    found = _SINCE.fullmatch(name)
    return (found[1], int(found[2])) if found else (name, 0)


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
        grace: the grace of the windows, in ticks.
        head: name and kind of each column before the states.
        states: the states.
        results: name of each result of the operator, and the numbers of the states that it is made from.
        rows: the columns of rows that wait beside the states; None if none do, or if an earlier version wrote the state.
    """

    keys: pa.Schema
    tick_us: int
    segment: int
    grace: int
    head: tuple[tuple[str, str], ...]
    states: tuple[StoredState, ...]
    results: tuple[tuple[str, tuple[int, ...]], ...] = ()
    rows: pa.Schema | None = None

    @property
    def layout(self) -> PageLayout:
        """The layout of a page."""
        codes = [code for state in self.states for _, code in state.parts]
        return PageLayout((*head_codes(self.head), *codes))

    def plain(self) -> dict[str, Any]:
        """Return the schema as values that can be packed, or written as JSON but for the keys."""
        results = [[name, list(states)] for name, states in self.results]
        return {
            "keys": self.keys.serialize().to_pybytes(),
            "tick_us": self.tick_us,
            "segment": self.segment,
            "grace": self.grace,
            "head": [list(column) for column in self.head],
            "states": [[state.name, [list(part) for part in state.parts]] for state in self.states],
            **({"results": results} if results else {}),
            **({} if self.rows is None else {"rows": self.rows.serialize().to_pybytes()}),
        }

    @classmethod
    def from_plain(cls, plain: Any) -> "StoredSchema":
        """Return the schema that `plain` described.

        Raises:
            CorruptDataError: the value does not describe a schema.
        """
        try:
            states = tuple(
                StoredState(name, tuple((part, code) for part, code in parts))
                for name, parts in plain["states"]
            )
            return cls(
                read_schema(plain["keys"], "the schema of the key columns"),
                plain["tick_us"],
                plain["segment"],
                plain["grace"],
                tuple((name, kind) for name, kind in plain["head"]),
                states,
                _checked_results(plain.get("results", []), len(states)),
                None
                if plain.get("rows") is None
                else read_schema(plain["rows"], "the schema of the stored rows"),
            )
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise CorruptDataError(f"the description of the stored columns is invalid: {error}") from error

    @property
    def readable(self) -> pa.Schema:
        """The columns of `table`. A name that is used already, whatever its case, gets a number appended."""
        head = [pa.field(name, _head_type(kind)) for name, kind in self.head]
        codes = self.layout.codes
        states = [
            pa.field(name, pa.struct([pa.field(part, _ARROW[codes[column]]) for part, column in parts]))
            for name, parts in self._structs()
        ]
        fields = [*self.keys, *head, *states]
        names = _distinct_names(field.name for field in fields)
        return pa.schema([field.with_name(name) for field, name in zip(fields, names, strict=True)])

    @property
    def without_result(self) -> list[int]:
        """The numbers of the states that no result is made from."""
        used = {number for _, numbers in self.results for number in numbers}
        return [number for number in range(len(self.states)) if number not in used]

    def _structs(self) -> Iterator[tuple[str, list[tuple[str, int]]]]:
        """Name of each struct of `table`, and the name and column of each of its fields: results, then states without one."""
        columns, at = [], len(self.head)
        for state in self.states:
            columns.append([(part, column) for column, (part, _) in enumerate(state.parts, at)])
            at += len(state.parts)
        others = [(self.states[number].name, (number,)) for number in self.without_result]
        for name, numbers in (*self.results, *others):
            parts, places = zip(*(part for number in numbers for part in columns[number]), strict=True)
            yield name, list(zip(_distinct_names(parts), places, strict=True))

    def table(self, keys: Sequence[bytes], key: Column, columns: Sequence[Column]) -> pa.Table:
        """Return entries in readable form: keys decoded, times as timestamps, a struct for each result, objects as JSON.

        Args:
            keys: distinct keys, encoded.
            key: shape (n,), int64: positions in `keys`.
            columns: one of length n for each of the layout.
        """
        arrays = [take_values(column, key) for column in decode_keys(keys, self.keys.types)]
        for (_, kind), column in zip(self.head, columns, strict=False):
            arrays.append(self.instants(column) if kind == TIME else _readable(column, _CODES[kind]))
        readable: dict[int, pa.Array] = {}
        for _, parts in self._structs():
            for _, at in parts:
                if at not in readable:  # Results may share states.
                    readable[at] = _readable(columns[at], self.layout.codes[at])
            arrays.append(
                pa.StructArray.from_arrays(
                    [readable[at] for _, at in parts], names=[part for part, _ in parts]
                )
            )
        return pa.Table.from_arrays(arrays, schema=self.readable)

    def instants(self, ticks: Column) -> pa.Array:
        """Return ticks as timestamps; ticks outside the range of timestamps are null."""
        none = (ticks < -(-_FIRST_US // self.tick_us)) | (ticks >= _END_US // self.tick_us)
        micros = np.where(none, 0, ticks) * self.tick_us
        return pa.array(micros, pa.int64(), mask=none).cast(pa.timestamp("us", "UTC"))


def head_codes(head: Sequence[tuple[str, str]]) -> tuple[str, ...]:
    """Return the page code of each column before the states."""
    return tuple(_CODES[kind] for _, kind in head)


def _checked_results(plain: Any, states: int) -> tuple[tuple[str, tuple[int, ...]], ...]:
    """Return the results of a schema with so many states."""
    results = tuple((name, tuple(numbers)) for name, numbers in plain)
    there = {*range(states)}
    if not all(isinstance(name, str) and numbers and there.issuperset(numbers) for name, numbers in results):
        raise ValueError(f"results are {short(results)}, of {states} states")
    return results


def _distinct_names(names: Iterable[str]) -> list[str]:
    """Return names of which no two are equal but for case, with numbers appended to those that are taken."""
    taken: dict[str, str] = {}
    for wanted in names:
        name = next(
            name
            for name in chain([wanted], (f"{wanted}_{number}" for number in count(2)))
            if name.casefold() not in taken
        )
        taken[name.casefold()] = name
    return list(taken.values())


def _head_type(kind: str) -> pa.DataType:
    return pa.timestamp("us", "UTC") if kind == TIME else _ARROW[_CODES[kind]]


def _readable(column: Column, code: str) -> pa.Array:
    if code != "object":
        return pa.array(column, _ARROW[code])
    return pa.array([None if value is None else _json(value) for value in column.tolist()], pa.string())


def _json(value: Any) -> str:
    return json.dumps(_json_value(value), ensure_ascii=False)


def _json_value(value: Any) -> Any:
    """A value for JSON: bytes in hex; NaN and other values without a form in JSON as text."""
    if isinstance(value, list | tuple):
        return [_json_value(item) for item in value]
    if isinstance(value, dict):
        return {
            key if isinstance(key, str) else str(_json_value(key)): _json_value(item)
            for key, item in value.items()
        }
    if isinstance(value, float):
        return (
            value if math.isfinite(value) else {"inf": "Infinity", "-inf": "-Infinity"}.get(str(value), "NaN")
        )
    if value is None or isinstance(value, str | int):
        return value
    return value.hex() if isinstance(value, bytes) else str(value)
