"""What is stored of an operator: the columns of an entry, their bytes, and how many entries a key has."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.types as pat

from operators.aggregates.fold_operation import FoldOperation
from operators.aggregates.operation import Operation
from operators.aggregates.user_operation import UserOperation
from operators.columns.arrow import column_data
from operators.columns.ranges import State
from operators.columns.records import Records
from operators.explain.windows import WindowsPart
from operators.runtime.program import Program
from serializers import pack_value
from serializers.keys import NO_COLUMNS
from state_backends.store.schema import StoredSchema, head_codes

_WORD_BYTES = 8
_USUAL_ENTRIES = 1_000
_MANY_RECORDS = 100
_OF_USERS = FoldOperation | UserOperation
_WHOLE = 1_000_000
TYPICAL = "texts of 16 characters, whole numbers of 7 digits"
"""What values are taken to be where the size of objects is told."""
BEGUN = "a state of one's own as it begins"
"""What the state of a user's functions is taken to be."""
_VALUES: tuple[tuple[Callable[[pa.DataType], bool], Callable[[int, pa.DataType], Any]], ...] = (
    (pat.is_boolean, lambda number, _: number % 2 == 0),
    (lambda type_: pat.is_string(type_) or pat.is_large_string(type_), lambda number, _: f"{number:016d}"),
    (lambda type_: pat.is_binary(type_) or pat.is_large_binary(type_), lambda number, _: b"%016d" % number),
    (pat.is_decimal, lambda number, type_: Decimal(number % 10**type_.precision).scaleb(-type_.scale)),
    (pat.is_floating, lambda number, _: number / 8),
    (pat.is_integer, lambda number, type_: number % 2 ** min(31, type_.bit_width - 1)),
    (pat.is_temporal, lambda number, _: number),
)
"""How a value is made of a number, by type."""


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


def state_of(program: Program, windows: WindowsPart) -> StatePart:
    """Return what a program stores."""
    layout, stored = program.plan.layout, program.stored()
    needed = None if windows.needed_us is None else windows.needed_us + program.grace * program.tick_us
    return StatePart(
        stored.head,
        tuple((state.name, state.parts) for state in stored.states),
        layout.width * _WORD_BYTES,
        layout.codes.count("object"),
        _object_bytes(program, stored),
        _taken(program),
        program.segment * program.tick_us,
        needed,
        windows.spacing_us,
        windows.lone,
    )


def _object_bytes(program: Program, stored: StoredSchema) -> dict[int, int] | None:
    if "object" in head_codes(stored.head):  # values of a user's own operator
        return None
    types, held = dict(program.columns), [op for op in program.plan.operations if "object" in op.codes]
    found = {}
    for records in (1, _MANY_RECORDS):
        sizes = [_packed_bytes(operation, types, records) for operation in held]
        known = [size for size in sizes if size is not None]
        if len(known) < len(sizes):
            return None
        found[records] = sum(known)
    return found


def _taken(program: Program) -> str:
    held = [operation for operation in program.plan.operations if "object" in operation.codes]
    return "; ".join(dict.fromkeys(BEGUN if isinstance(op, _OF_USERS) else TYPICAL for op in held))


def _packed_bytes(operation: Operation, types: dict[str, pa.DataType], records: int) -> int | None:
    """The bytes of the objects in a state of so many typical records, or None if there are no typical ones."""
    state: State
    if isinstance(operation, FoldOperation):
        return len(pack_value(pack_value(operation.functions.init())))
    if isinstance(operation, UserOperation):
        state = operation.created(1)
    else:
        typical = _typical_records(operation.inputs, types, records)
        if typical is None:
            return None
        state = operation.accumulate(typical, np.zeros(1, np.int64))
    pairs = zip(operation.codes, state, strict=True)
    return sum(len(pack_value(column[0])) for code, column in pairs if code == "object")


def _typical_records(columns: Sequence[str], types: dict[str, pa.DataType], rows: int) -> Records | None:
    """Records of one key with distinct values."""
    made = {name: _typical(types[name], rows) for name in columns}
    values = {name: column_data(column) for name, column in made.items() if column is not None}
    if len(values) < len(made):
        return None
    time = np.arange(rows) + _WHOLE**2
    return Records([NO_COLUMNS], np.zeros(rows, np.int64), time, values, 0)


def _typical(type_: pa.DataType, rows: int) -> pa.Array | None:
    """Distinct values of a type, or None for a type that has none of a usual size."""
    for fits, value in _VALUES:
        if fits(type_):
            return pa.array([value(_WHOLE + row, type_) for row in range(rows)], type_)
    return None
