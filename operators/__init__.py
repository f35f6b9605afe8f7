"""Window operators for PySpark with pluggable state.

from operators import SlidingWindows, aggregates as agg
"""

from operators import aggregates
from operators.aggregates import AggregateOperation
from operators.base.calendar import NEVER
from operators.base.columnar import Declaration, Operator, Rows, Stored, Work
from operators.base.keyed import Keyed, KeyedOperator
from operators.definitions import HoppingWindows, SessionWindows, SlidingWindows, TumblingWindows
from operators.errors import DefinitionError, SessionSetupError
from operators.runtime.session import session_conf, spark_session
from operators.windows import WindowedAggregation

__all__ = [
    "NEVER",
    "AggregateOperation",
    "Declaration",
    "DefinitionError",
    "HoppingWindows",
    "Keyed",
    "KeyedOperator",
    "Operator",
    "Rows",
    "SessionSetupError",
    "SessionWindows",
    "SlidingWindows",
    "Stored",
    "TumblingWindows",
    "WindowedAggregation",
    "Work",
    "aggregates",
    "session_conf",
    "spark_session",
]
