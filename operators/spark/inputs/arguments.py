"""What users may say when they apply an operator."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from pyspark.sql.types import StructType

from operators.columns.checks import check_name
from operators.columns.durations import Duration, is_odd, odd, ticks
from operators.errors import DefinitionError

_MS_US = 1_000


@dataclass(frozen=True, slots=True)
class Arguments:
    """What users may say when they apply an operator; see `RunnableOperator.apply`."""

    backend: str | None = None
    options: Mapping[str, object] | None = None
    name: str = "windows"
    close_time: datetime | str | None = None
    idle: Duration | None = None
    schema: StructType | None = None
    streaming: bool | None = None
    max_future: Duration | None = None

    def __post_init__(self) -> None:
        check_name(self.name)

    @property
    def idle_ms(self) -> int | None:
        """`idle` in milliseconds."""
        return _length(self.idle, "idle", _MS_US)

    @property
    def max_future_us(self) -> int | None:
        """`max_future` in microseconds."""
        return _length(self.max_future, "max_future", 1)


def _length(value: Duration | None, name: str, tick_us: int) -> int | None:
    if value is None:
        return None
    length = ticks(value, tick_us, name, 1)
    if is_odd(value):
        raise DefinitionError(odd(value, name))
    return length
