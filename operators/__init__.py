"""Window operators for PySpark with pluggable state.

from operators import SlidingWindows, aggregates as agg
"""

from operators import aggregates
from operators.errors import DefinitionError, SessionSetupError
from operators.runtime.session import session_conf, spark_session
from operators.windows import SlidingWindows, WindowedAggregation

__all__ = [
    "DefinitionError",
    "SessionSetupError",
    "SlidingWindows",
    "WindowedAggregation",
    "aggregates",
    "session_conf",
    "spark_session",
]
