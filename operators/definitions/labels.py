"""The rows that rolling windows emit, and labels of an as-of join in one frame with the records that they get aggregates of."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from operators.aggregates import Aggregate
from operators.aggregates.sides import Side, WholeSide
from operators.columns.checks import check_column_name

Aggregated = tuple[str, Aggregate, tuple[str, ...]]
"""Name of a result, its aggregate, and the names of its lookbacks."""


@dataclass(frozen=True, slots=True)
class EmittedRows:
    """The rows that come out, if they are not the records with all columns of the frame.

    Attributes:
        columns: their columns, with the names that these have in the result.
        time: the column of their times, which need not come out.
        marker: a column that is true in these rows only, if they are labels.
    """

    columns: tuple[tuple[str, str], ...]
    time: str
    marker: str | None = None


def with_labels(
    aggregates: Sequence[Aggregated], columns: Sequence[str], label_time: str
) -> tuple[tuple[Aggregated, ...], EmittedRows, list[Side]]:
    """Return aggregates over the records in the frame of both, the labels, and both as frames to be united.

    Args:
        aggregates: over the records by themselves.
        columns: the columns of the labels.
        label_time: the one with their times, which may be another.

    Raises:
        DefinitionError: `label_time` is not a name.
    """
    check_column_name("label_time", label_time)
    labels = WholeSide("labels", (), tuple(dict.fromkeys((*columns, label_time))))
    records = Side("records", tuple((name, aggregate) for name, aggregate, _ in aggregates))
    renamed = tuple((name, records.rename(aggregate), over) for name, aggregate, over in aggregates)
    joint = tuple((labels.joint(name), name) for name in columns)
    return renamed, EmittedRows(joint, labels.joint(label_time), labels.marker), [labels, records]


def as_of(operator: Any, columns: Sequence[str], label_time: str) -> tuple[Any, list[Side]]:
    """Return a rolling operator over labels and records as one frame, and the two.

    Args:
        operator: the rolling operator.
        columns, label_time: as for `with_labels`.
    """
    aggregates, rows, sides = with_labels(operator.aggregates, columns, label_time)
    return replace(operator, aggregates=aggregates, rows=rows), sides
