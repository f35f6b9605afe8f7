"""Tables that hold the last value of each window: a function for `foreachBatch`, and the databases that it writes to.

from operators.sinks import PostgresSink, upsert_to
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from operators.sinks.delta import DeltaSink
    from operators.sinks.history import HistoryAndStream
    from operators.sinks.interface import Changes, Sink, SinkError, WrittenBatch
    from operators.sinks.kafka import KafkaSink
    from operators.sinks.kafka_history import topic_history_and_stream
    from operators.sinks.kafka_table import read_table
    from operators.sinks.lake import Merge, merge_to
    from operators.sinks.lake_append import Append, append_to
    from operators.sinks.lake_reading import history_and_stream
    from operators.sinks.page_answers import Freshness
    from operators.sinks.page_reader import Answer, Answers, FeatureReader, StaleError
    from operators.sinks.pages import FoundPage, PageFinder, PageTable, Wanted
    from operators.sinks.postgres import PostgresSink
    from operators.sinks.postgres_pages import PostgresPages
    from operators.sinks.redis_pages import RedisPages
    from operators.sinks.sqlite import SQLiteSink
    from operators.sinks.sqlite_pages import SQLitePages
    from operators.sinks.upsert import Upsert, upsert_to

__all__ = [
    "Answer",
    "Answers",
    "Append",
    "Changes",
    "DeltaSink",
    "FeatureReader",
    "FoundPage",
    "Freshness",
    "HistoryAndStream",
    "KafkaSink",
    "Merge",
    "PageFinder",
    "PageTable",
    "PostgresPages",
    "PostgresSink",
    "RedisPages",
    "SQLitePages",
    "SQLiteSink",
    "Sink",
    "SinkError",
    "StaleError",
    "Upsert",
    "Wanted",
    "WrittenBatch",
    "append_to",
    "history_and_stream",
    "merge_to",
    "read_table",
    "topic_history_and_stream",
    "upsert_to",
]
_MODULES = {
    "delta": ("DeltaSink",),
    "history": ("HistoryAndStream",),
    "interface": ("Changes", "Sink", "SinkError", "WrittenBatch"),
    "kafka": ("KafkaSink",),
    "kafka_history": ("topic_history_and_stream",),
    "kafka_table": ("read_table",),
    "lake": ("Merge", "merge_to"),
    "lake_append": ("Append", "append_to"),
    "lake_reading": ("history_and_stream",),
    "page_answers": ("Freshness",),
    "page_reader": ("Answer", "Answers", "FeatureReader", "StaleError"),
    "pages": ("FoundPage", "PageFinder", "PageTable", "Wanted"),
    "postgres": ("PostgresSink",),
    "postgres_pages": ("PostgresPages",),
    "redis_pages": ("RedisPages",),
    "sqlite": ("SQLiteSink",),
    "sqlite_pages": ("SQLitePages",),
    "upsert": ("Upsert", "upsert_to"),
}


def __getattr__(name: str) -> Any:
    """Import a name at its first use."""
    for module, names in _MODULES.items():
        if name in names:
            return getattr(import_module(f"{__name__}.{module}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}; it has {', '.join(__all__)}")


def __dir__() -> list[str]:
    """Return the public names only, for completion."""
    return sorted(__all__)
