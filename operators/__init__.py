"""Window operators for PySpark with pluggable state.

from operators import SlidingWindows, aggregates as agg
"""

from operators import aggregates
from operators.aggregates import AggregateOperation
from operators.definitions import HoppingWindows, SessionWindows, SlidingWindows, TumblingWindows
from operators.errors import DefinitionError, SessionSetupError
from operators.runtime.session import session_conf, spark_session
from operators.windows import WindowedAggregation

__all__ = [
    "AggregateOperation",
    "DefinitionError",
    "HoppingWindows",
    "SessionSetupError",
    "SessionWindows",
    "SlidingWindows",
    "TumblingWindows",
    "WindowedAggregation",
    "aggregates",
    "session_conf",
    "spark_session",
]
