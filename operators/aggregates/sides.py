"""The frames of a co-grouping: each has its own aggregates, over columns that are prefixed with the name of the frame."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from operators.aggregates.definitions import Aggregate
from operators.aggregates.input_columns import inputs_of, with_inputs
from operators.columns.checks import list_columns
from operators.columns.expressions import Expression, named
from operators.errors import DefinitionError

if TYPE_CHECKING:
    from pyspark.sql import Column

EVENT_TIME = "event time"


@dataclass(frozen=True, slots=True)
class Side:
    """One of the frames.

    Attributes:
        name: name of the frame.
        aggregates: aggregates of the frame by name of the result.
    """

    name: str
    aggregates: tuple[tuple[str, Aggregate], ...]

    @property
    def columns(self) -> list[str]:
        """The columns that the aggregates read."""
        return list(dict.fromkeys(name for _, aggregate in self.aggregates for name in inputs_of(aggregate)))

    @property
    def marker(self) -> str:
        """Name of a column that is true in rows of this frame, and null in rows of the others."""
        return f"{self.name}.*"

    def joint(self, column: str) -> str:
        """Return the name of a column in the union of all frames; an expression as it is, since it has no name yet."""
        return column if isinstance(column, Expression) else f"{self.name}.{column}"

    def joint_aggregates(self) -> dict[str, Aggregate]:
        """Return the aggregates by name, over columns of the union and rows of this frame."""
        return {name: self._joint(aggregate) for name, aggregate in self.aggregates}

    def _joint(self, aggregate: Aggregate) -> Aggregate:
        renamed = self.rename(aggregate)
        return renamed if aggregate.where is not None else replace(renamed, where=self.marker)

    def rename(self, aggregate: Aggregate) -> Aggregate:
        """Return an aggregate over columns of the union, whatever frame its rows are of."""
        return with_inputs(aggregate, self.joint)


@dataclass(frozen=True, slots=True)
class WholeSide(Side):
    """A frame of which all columns are read.

    Attributes:
        all_columns: their names.
    """

    all_columns: tuple[str, ...] = ()

    @property
    def columns(self) -> list[str]:
        return list(self.all_columns)


def check_side_columns(side: Side, names: Sequence[str], required: Sequence[str]) -> None:
    """Refuse a frame that lacks a column.

    Raises:
        DefinitionError: names the frame, the column, and the columns of the frame.
    """
    for name in required:
        if not isinstance(name, Expression) and name not in names:
            raise DefinitionError(
                f"frame {side.name}: column {name!r} does not exist; it has the columns {list_columns(name, names)}"
            )


def check_joint_names(sides: Sequence[Side], shared: Sequence[str]) -> None:
    """Refuse columns whose names would be those of other columns in the union of all frames. Case does not tell names apart.

    Args:
        sides: the frames.
        shared: the columns that every frame has in addition to its event time.

    Raises:
        DefinitionError: names the column.
    """
    own = {EVENT_TIME, *(side.marker for side in sides)}
    for side in sides:
        for name in side.columns:
            if side.joint(name) == side.marker:
                raise DefinitionError(
                    f"frame {side.name}: a column named {name!r} cannot be read beside other frames: rename it"
                )
            own.add(side.joint(name))
    folded = {name.lower() for name in own}
    for name in shared:
        if not isinstance(name, Expression) and name.lower() in folded:
            raise DefinitionError(
                f"the frames have a column {name!r} in common, which is the name of another column where they become one: "
                "rename it in each of them"
            )


def check_types(names: Sequence[str], types: Sequence[Mapping[str, Any]], times: Mapping[str, str]) -> None:
    """Refuse frames whose shared columns differ in type.

    Args:
        names: the names of the frames.
        types: the types of their columns in the union.
        times: the event-time column of each frame.

    Raises:
        DefinitionError: names the column and its type in both frames.
    """
    for name, other in zip(names[1:], types[1:], strict=True):
        for column, type_ in types[0].items():
            if other[column] == type_:
                continue
            first, second = f"column {column!r}", ""
            if column == EVENT_TIME:
                first, second = f"event time column {times[names[0]]!r}", f" (column {times[name]!r})"
            raise DefinitionError(
                f"{first} is of type {type_} in {names[0]}, but {other[column]} in {name}{second}: cast one of them"
            )


def check_by_name(sides: Sequence[Side], frames: object) -> None:
    """Refuse frames that are not given by name.

    Raises:
        DefinitionError: shows how to give them by name.
    """
    if not isinstance(frames, Mapping):
        expected = ", ".join(f"{side.name!r}: ..." for side in sides)
        raise DefinitionError(
            f"frames must be given by name, as {{{expected}}}; got a {type(frames).__name__}"
        )


def event_times(
    sides: Sequence[Side], frames: object, event_time: "str | Column | Mapping[str, str | Column]"
) -> dict[str, str]:
    """Return each frame's event-time column, by name or as an expression.

    Args:
        sides: the frames of the operator.
        frames: the frames by name, as given by the user.
        event_time: one column for all frames, or a column for each frame.

    Raises:
        DefinitionError: the frames are not those of the operator, or `event_time` lacks one of them.
    """
    check_by_name(sides, frames)
    assert isinstance(frames, Mapping)  # noqa: S101 - checked above
    names = [side.name for side in sides]
    if set(names) != set(frames):
        raise DefinitionError(
            f"expected the frames {', '.join(names)}, got {', '.join(frames) or 'none'}: give one frame for each name, "
            f"such as {{{', '.join(f'{name!r}: ...' for name in names)}}}"
        )
    if not isinstance(event_time, Mapping):
        return dict.fromkeys(names, named(event_time))
    missing = [name for name in names if name not in event_time]
    if missing:
        raise DefinitionError(f"event_time has no column for {', '.join(missing)}: give one for each frame")
    return {name: named(event_time[name]) for name in names}
