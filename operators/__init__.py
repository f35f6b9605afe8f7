"""Window operators for PySpark with pluggable state.

    from operators import SlidingWindows, aggregates as agg
"""

from operators import aggregates
from operators.errors import DefinitionError, SessionSetupError
from operators.windows import SlidingWindows, WindowedAggregation

__all__ = [
    "DefinitionError",
    "SessionSetupError",
    "SlidingWindows",
    "WindowedAggregation",
    "aggregates",
]
