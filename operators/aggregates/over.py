"""An aggregate of rolling windows that is limited to some of their lookbacks."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class OverLookbacks:
    """An aggregate over some lookbacks of rolling windows; made by `Aggregate.over`.

    Attributes:
        aggregate: the aggregate.
        lookbacks: their names.
    """

    aggregate: object
    lookbacks: tuple[str, ...]
