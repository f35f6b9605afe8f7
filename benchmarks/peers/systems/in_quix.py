"""Quix Streams: its own windows on its own RocksDB state, driven in process where its application would read Kafka.

Windows of a rate's records have to be full. One key's records fill them, then the state that Quix made of them is given to
all other keys as it is: the same entries under other keys.
"""

import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable
from contextvars import copy_context
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pyarrow as pa
from quixstreams.context import set_message_context
from quixstreams.dataframe import DataFrameRegistry, StreamingDataFrame
from quixstreams.dataframe.windows.aggregations import Count, Max, Mean, Min, Sum
from quixstreams.models import MessageContext, Topic, TopicConfig
from quixstreams.models.topics import TopicManager
from quixstreams.processing import ProcessingContext
from quixstreams.sinks import SinkManager
from quixstreams.state import StateStoreManager
from rocksdict import WriteBatch
from task import Task, read_task

COMMIT_EVERY = 10_000
TOPIC = Topic("records")
TOPIC.broker_config = TopicConfig(
    num_partitions=1, replication_factor=1, extra_config={"retention.ms": "-1", "retention.bytes": "-1"}
)
Message = tuple[dict[str, float], bytes, int]


class NoKafka:
    """Stands where consumer and producer would: takes offsets, has nothing to flush."""

    def __init__(self) -> None:
        self.offsets: dict[Any, int] = {}

    def flush(self) -> int:
        return 0

    def commit(self, **_: Any) -> None:
        """Take the offsets of a checkpoint."""


class Pipeline:
    """One windowed dataframe on one partition."""

    def __init__(self, task: Task, folder: Path) -> None:
        self.stores = StateStoreManager(state_dir=folder)
        self.stores.init()
        registry, kafka = DataFrameRegistry(), NoKafka()
        self._processing = ProcessingContext(
            commit_interval=1e9,
            commit_every=COMMIT_EVERY,
            producer=kafka,
            consumer=kafka,
            state_manager=self.stores,
            sink_manager=SinkManager(),
            dataframe_registry=registry,
        )
        topics = TopicManager(topic_admin=None, consumer_group="benchmark")
        frame = StreamingDataFrame(
            TOPIC, topic_manager=topics, registry=registry, processing_context=self._processing
        )
        registry.register_root(frame)
        frame = windowed(frame, task)
        self.stores.on_partition_assign(frame.stream_id, 0, {})
        self.stream = frame.stream_id
        self._processing.init_checkpoint()
        self.emitted: list[tuple[dict[str, Any], bytes]] = []
        self._run = frame.compose(sink=lambda value, key, *_: self.emitted.append((value, key)))[TOPIC.name]
        self._context = copy_context()
        self._context.run(set_message_context, MessageContext(TOPIC.name, 0, 0, 0))
        self._offset = 0

    def process(self, value: dict[str, float], key: bytes, at: int) -> None:
        """Take one record, as the application does with a message."""
        self._context.run(self._run, value, key, at, None)
        self._processing.store_offset(TOPIC.name, 0, self._offset)
        self._offset += 1
        self._processing.commit_checkpoint()

    def commit(self) -> None:
        """Write what is open to RocksDB."""
        self._processing.commit_checkpoint(force=True)


def windowed(frame: StreamingDataFrame, task: Task) -> StreamingDataFrame:
    """Add the windows of a kind of work, with five aggregates."""
    makers: dict[str, Callable[[], Any]] = {
        "sliding": lambda: frame.sliding_window(task.size),
        "tumbling": lambda: frame.tumbling_window(task.size),
        "hopping": lambda: frame.hopping_window(task.size, task.step),
        "session": lambda: frame.session_window(task.size),
    }
    windows = makers[task.work]().agg(
        n=Count("v"), total=Sum("v"), low=Min("v"), high=Max("v"), mean=Mean("v")
    )
    return windows.current() if task.work == "sliding" else windows.final()


def share(pipeline: Pipeline, of: bytes, keys: list[bytes]) -> None:
    """Give the state of one key, the only one so far, to others."""
    for store in pipeline.stores.stores[pipeline.stream].values():
        partition = store.partitions[0]
        for family in partition.list_column_families():
            entries = [
                (k[len(of) :], v)
                for k, v in partition.iter_items(b"", cf_name=family)
                if k.startswith(of + b"|")
            ]
            batch, handle = WriteBatch(raw_mode=True), partition.get_column_family_handle(family)
            for key in keys:
                for rest, value in entries:
                    batch.put(key + rest, value, handle)
            partition._write(batch)  # noqa: SLF001 - what is public takes a transaction's changes only


def run(task: Task, pipeline: Pipeline) -> list[float]:
    """Fill the windows of all keys, then clock the rounds."""
    columns = task.columns
    if task.fill:
        model = typical(task, columns)
        clocked(pipeline, messages(columns, [row for row in range(task.fill) if columns["k"][row] == model]))
        share(pipeline, name(model), [name(key) for key in set(columns["k"]) - {model}])
    pipeline.emitted.clear()
    begins = range(task.fill, task.fill + task.rounds * task.rows, task.rows)
    return [clocked(pipeline, messages(columns, range(begin, begin + task.rows))) for begin in begins]


def typical(task: Task, columns: dict[str, list[Any]]) -> int:
    """Return the key of which about as many records as of others fill the last window before the clock starts."""
    keys, times = columns["k"][: task.fill], columns["at"][: task.fill]
    counts = Counter(key for key, at in zip(keys, times, strict=True) if at > times[-1] - task.size)
    mean = sum(counts.values()) / len(set(keys))
    return min(counts, key=lambda key: abs(counts[key] - mean))


def messages(columns: dict[str, list[Any]], rows: Iterable[int]) -> list[Message]:
    """Return records as Kafka's would arrive: a value, a key of bytes, and a time."""
    return [({"v": columns["v"][row]}, name(columns["k"][row]), columns["at"][row]) for row in rows]


def name(key: int) -> bytes:
    """Return a key as bytes."""
    return b"%d" % key


def clocked(pipeline: Pipeline, taken: list[Message]) -> float:
    """Process records and commit, and return the seconds."""
    begin = time.perf_counter()
    for message in taken:
        pipeline.process(*message)
    pipeline.commit()
    return time.perf_counter() - begin


def main() -> None:
    task = read_task()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        pipeline = Pipeline(task, Path(folder))
        seconds = run(task, pipeline)
        pipeline.stores.close()
    place = "end" if task.work == "sliding" else "start"
    rows = [{**value, "k": int(key), "at": value[place]} for value, key in pipeline.emitted]
    task.answer(seconds, version("quixstreams"), pa.Table.from_pylist(rows))


if __name__ == "__main__":
    main()
