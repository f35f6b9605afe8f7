"""The frames of a co-grouping: each with aggregates of its own, over columns that get the frame's name."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

from operators.aggregates.definitions import INPUTS, Aggregate
from operators.columns.checks import listed_columns
from operators.errors import DefinitionError

EVENT_TIME = "event time"


@dataclass(frozen=True, slots=True)
class Side:
    """One of the frames.

    Attributes:
        name: the frame's.
        aggregates: its results by name.
    """

    name: str
    aggregates: tuple[tuple[str, Aggregate], ...]

    @property
    def columns(self) -> list[str]:
        """The columns that its aggregates read."""
        return list(dict.fromkeys(name for _, aggregate in self.aggregates for name in _inputs(aggregate)))

    @property
    def marker(self) -> str:
        """Name of the column that is true in its rows, and null in those of other frames."""
        return f"{self.name}.*"

    def joint(self, column: str) -> str:
        """Return the name that a column has beside those of other frames."""
        return f"{self.name}.{column}"

    def joint_aggregates(self) -> dict[str, Aggregate]:
        """Return its results by name, from columns under their joint names and from its rows only."""
        return {name: self._joint(aggregate) for name, aggregate in self.aggregates}

    def _joint(self, aggregate: Aggregate) -> Aggregate:
        changes: dict[str, Any] = {"where": self.marker}
        for field in fields(aggregate):
            value = getattr(aggregate, field.name)
            if field.name in INPUTS and value is not None:
                changes[field.name] = self.joint(value)
            if field.name == "columns":
                changes["columns"] = tuple(map(self.joint, value))
        return replace(aggregate, **changes)


def _inputs(aggregate: Aggregate) -> Sequence[str]:
    given = [getattr(aggregate, name, None) for name in INPUTS]
    return [*(name for name in given if name is not None), *getattr(aggregate, "columns", ())]


def check_side_columns(side: Side, names: Sequence[str], wanted: Sequence[str]) -> None:
    """Refuse a frame that lacks a column.

    Raises:
        DefinitionError: names the frame, the column, and those that there are.
    """
    for name in wanted:
        if name not in names:
            raise DefinitionError(
                f"frame {side.name}: there is no column {name!r}; it has {listed_columns(name, names)}"
            )


def check_types(names: Sequence[str], types: Sequence[Mapping[str, Any]]) -> None:
    """Refuse frames whose shared columns differ in type.

    Raises:
        DefinitionError: names the column and both frames' types.
    """
    for name, other in zip(names[1:], types[1:], strict=True):
        for column, type_ in types[0].items():
            if other[column] != type_:
                raise DefinitionError(
                    f"column {column!r} is {type_} in {names[0]}, {other[column]} in {name}: cast one of them"
                )


def check_given(sides: Sequence[Side], frames: object) -> None:
    """Refuse frames that are not given by name.

    Raises:
        DefinitionError: says how they are given.
    """
    if not isinstance(frames, Mapping):
        expected = ", ".join(f"{side.name!r}: ..." for side in sides)
        raise DefinitionError(
            f"frames must be given by name, as {{{expected}}}; got a {type(frames).__name__}"
        )


def event_times(sides: Sequence[Side], frames: object, event_time: str | Mapping[str, str]) -> dict[str, str]:
    """Return the name of each frame's event-time column.

    Args:
        sides: the frames of the operator.
        frames: what the user gave, by name.
        event_time: one name for all frames, or a name for each.

    Raises:
        DefinitionError: the frames are not those of the operator, or one has no event time.
    """
    check_given(sides, frames)
    assert isinstance(frames, Mapping)  # noqa: S101 - checked above
    names = [side.name for side in sides]
    if set(names) != set(frames):
        raise DefinitionError(
            f"expected the frames {', '.join(names)}, got {', '.join(frames) or 'none'}: give one frame for each name, "
            f"such as {{{', '.join(f'{name!r}: ...' for name in names)}}}"
        )
    if isinstance(event_time, str):
        return dict.fromkeys(names, event_time)
    missing = [name for name in names if name not in event_time]
    if missing:
        raise DefinitionError(f"event_time names no column for {', '.join(missing)}")
    return {name: event_time[name] for name in names}
