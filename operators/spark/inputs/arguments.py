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

    def __post_init__(self) -> None:
        check_name(self.name)

    @property
    def idle_ms(self) -> int | None:
        """`idle` in milliseconds."""
        if self.idle is None:
            return None
        idle = ticks(self.idle, _MS_US, "idle", 1)
        if is_odd(self.idle):
            raise DefinitionError(odd(self.idle, "idle"))
        return idle
