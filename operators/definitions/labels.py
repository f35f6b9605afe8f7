"""Labels of an as-of join and the records that they get aggregates of, as one frame."""

from collections.abc import Sequence
from dataclasses import dataclass

from operators.aggregates import Aggregate
from operators.aggregates.sides import Side, WholeSide
from operators.columns.checks import check_column_name

Aggregated = tuple[str, Aggregate, tuple[str, ...]]
"""Name of a result, its aggregate, and the names of its lookbacks."""


@dataclass(frozen=True, slots=True)
class Labels:
    """The labels in one frame with the records.

    Attributes:
        columns: their columns, with the names that these have in the result.
        time: the column of their times.
        marker: a column that is true in labels only.
    """

    columns: tuple[tuple[str, str], ...]
    time: str
    marker: str


def with_labels(
    aggregates: Sequence[Aggregated], columns: Sequence[str], label_time: str
) -> tuple[tuple[Aggregated, ...], Labels, list[Side]]:
    """Return aggregates over the records in the frame of both, the labels, and both as frames to be united.

    Args:
        aggregates: over the records by themselves.
        columns: of the labels.
        label_time: the one with their times.

    Raises:
        DefinitionError: `label_time` is not a name.
    """
    check_column_name("label_time", label_time)
    labels = WholeSide("labels", (), tuple(columns))
    records = Side("records", tuple((name, aggregate) for name, aggregate, _ in aggregates))
    renamed = tuple((name, records.renamed(aggregate), over) for name, aggregate, over in aggregates)
    joint = tuple((labels.joint(name), name) for name in columns)
    return renamed, Labels(joint, labels.joint(label_time), labels.marker), [labels, records]
