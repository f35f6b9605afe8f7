"""What a topic has, and what happens to a batch when brokers, other drivers or users do not do what they should."""

import gc
import itertools
import json
import pickle
import random
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pytest
from confluent_kafka import Message, Producer
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic

from examples.kafka.broker import Broker
from examples.kafka.messages import committed
from operators import DefinitionError
from operators.sinks import KafkaSink, SinkError, read_table, upsert_to
from operators.sinks.changes import changes_of
from operators.sinks.contract.base import changes, number_of, row
from tests.operators.sinks.kafka_broker import PARTITIONS, Topics, broker_or_skip
from tests.operators.sinks.kafka_proxy import Proxy

pytestmark = pytest.mark.connectors
UTC = pa.timestamp("us", "UTC")
NINE = 1_767_603_600_000_000
"""2026-01-05 09:00 UTC, in microseconds."""


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory, proxy: Proxy) -> Iterator[Broker]:
    """A broker of this module's."""
    with broker_or_skip(tmp_path_factory.mktemp("kafka"), proxy.address) as broker:
        proxy.start(broker.behind)
        yield broker


@pytest.fixture(scope="module")
def proxy() -> Iterator[Proxy]:
    """What stands between the broker and clients that connect to its address."""
    proxy = Proxy()
    yield proxy
    proxy.stop()


@pytest.fixture
def topics(broker: Broker, request: pytest.FixtureRequest) -> Topics:
    return Topics(broker.servers, request.node.name.translate({91: "-", 93: None}))


@pytest.fixture
def admin(topics: Topics) -> Iterator[AdminClient]:
    """A client that ends with the test: the error of another would keep it, and it would go on connecting."""
    with AdminClient({"bootstrap.servers": topics.servers}) as admin:
        yield admin


def messages(topics: Topics) -> list[Message]:
    """What readers of a topic see."""
    return committed(topics.servers, topics.topic("t"))


def until(condition: Callable[[], bool]) -> None:
    """Wait for what a broker does on its own."""
    end = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.1)


def session_rows(*rows: tuple[str | None, int, int, int, str, int]) -> pa.Table:
    """Rows as an operator emits them: key, the window's bounds in microseconds after nine, value, change, sequence."""
    columns = list(zip(*rows, strict=True))
    bounds = [pa.array([NINE + us for us in columns[number]], UTC) for number in (1, 2)]
    window = pa.StructArray.from_arrays(bounds, ["start", "end"])
    names = ["user", "window", "n", "change", "sequence"]
    return pa.table([pa.array(columns[0]), window, *map(pa.array, columns[3:])], names)


def test_a_message_is_as_the_guide_says(topics: Topics) -> None:
    """Key, value, headers and partition, of an update and a retract; the partition is the Java client's for the key columns."""
    rows = session_rows(
        ("ann", 0, 1, 3, "update", 8), ("ann", 5, 9, 1, "retract", 7), ("bob", 0, 1, 1, "update", 2)
    )
    topics.sink().write(changes_of(rows, ["user"], "visits", 4))
    found = {
        json.loads(one.key())["user"] + ("" if one.value() else " gone"): one for one in messages(topics)
    }
    key = b'{"user":"ann","window_start":"2026-01-05T09:00:00.000000Z","window_end":"2026-01-05T09:00:00.000001Z"}'
    assert key == found["ann"].key()
    assert json.loads(key) | {"n": 3, "sequence": 8} == json.loads(found["ann"].value())
    common = [("batch", b"4"), ("query", b"visits"), ("incarnation", b"1")]
    assert [("change", b"update"), ("sequence", b"8"), *common] == found["ann"].headers()
    assert [("change", b"retract"), ("sequence", b"7"), *common] == found["ann gone"].headers()
    assert found["ann gone"].value() is None
    # Utils.toPositive(Utils.murmur2(key)) % 3 of kafka-clients 4.3.1
    assert {"ann": 1, "ann gone": 1, "bob": 0} == {name: one.partition() for name, one in found.items()}


def test_messages_can_be_placed_by_their_whole_key(topics: Topics) -> None:
    """As a Java client places them that knows only the message."""
    rows = session_rows(*(("ann", us, us + 1, 3, "update", 8) for us in range(30)))
    topics.sink(partition_by="message").write(changes_of(rows, ["user"], "visits", 0))
    assert set(range(PARTITIONS)) == {one.partition() for one in messages(topics)}


def test_values_can_be_made_by_the_query(topics: Topics) -> None:
    """A column of bytes, such as Avro, is the value; the key is JSON, and nothing else of the row is written."""
    rows = session_rows(("ann", 0, 1, 3, "update", 8)).append_column("avro", pa.array([b"\x00\x01"]))
    topics.sink(value="avro").write(changes_of(rows, ["user"], "visits", 0))
    assert [b"\x00\x01"] == [one.value() for one in messages(topics)]
    nothing = rows.set_column(5, "avro", pa.array([None], pa.binary()))
    with pytest.raises(
        SinkError, match="'avro' is null in 1 rows, and a message without a value removes its key"
    ):
        topics.sink(value="avro").write(changes_of(nothing, ["user"], "visits", 1))
    for name, message in (("n", "of type int64: it takes bytes or text"), ("gone", "which does not exist")):
        with pytest.raises(DefinitionError, match=message):
            topics.sink(value=name).write(changes_of(rows, ["user"], "visits", 1))


def test_a_typo_creates_no_topic(topics: Topics, admin: AdminClient) -> None:
    """A sink creates a topic only with a number of partitions; the brokers' own creation is not used."""
    with pytest.raises(SinkError, match=r"there is no topic .*: create it, or pass partitions=6"):
        upsert_to(topics.sink(partitions=None), keys=["k"])
    with pytest.raises(SinkError, match="there is no topic"):
        topics.sink(partitions=None).write(changes(0, [row("a")]))
    assert [] == [name for name in admin.list_topics().topics if name.startswith(topics.name)]
    upsert_to(topics.sink(), keys=["k"])
    assert topics.topic("t") not in admin.list_topics().topics


def test_the_topic_stays_the_one_that_was_written_to(topics: Topics, admin: AdminClient) -> None:
    """More partitions, or a topic made anew, would send messages of a key elsewhere, or lose them."""
    topics.sink().write(changes(0, [row("a")]))
    name = topics.topic("t")
    with pytest.raises(SinkError, match="has 3 partitions, and partitions=4 was asked for"):
        topics.sink(partitions=4).write(changes(1, [row("a")]))
    admin.create_partitions([NewPartitions(name, 5)])[name].result()
    until(lambda: len(admin.list_topics(name).topics[name].partitions) == 5)
    with pytest.raises(SinkError, match="had 3 partitions and has 5"):
        topics.sink(partitions=None).write(changes(1, [row("a")]))
    admin.delete_topics([name])[name].result()
    until(lambda: name not in admin.list_topics().topics)
    admin.create_topics([NewTopic(name, 3, 1)])[name].result()
    with pytest.raises(SinkError, match="was deleted and made anew"):
        topics.sink().write(changes(1, [row("a")]))


def test_the_newer_driver_ends_the_older(topics: Topics) -> None:
    """The older ends with words, and does not come back by itself; nothing is written twice."""
    older, newer = topics.sink(), topics.sink()
    older.write(changes(0, [row("a", n=0)]))
    newer.write(changes(1, [row("a", n=1)]))
    for _ in range(2):
        with pytest.raises(SinkError, match="another process writes the query 'one'"):
            older.write(changes(2, [row("a", n=2)]))
    assert newer.write(changes(2, [row("a", n=3)]))
    assert [{"n": 3}] == [{"n": one["n"]} for one in topics.rows()]


def test_a_driver_that_is_fenced_in_a_batch_ends(topics: Topics) -> None:
    """A newer one that has claimed the query, and has written nothing yet, is found, too."""
    older, newer = topics.sink(), topics.sink()
    older.write(changes(3, [row("a", n=0)]))
    assert not newer.write(changes(3, [row("a", n=1)]))
    with pytest.raises(SinkError, match="another process writes"):
        older.write(changes(4, [row("a", n=2)]))
    assert 3 == number_of(newer.last_batch("one"))


def test_a_look_waits_for_open_transactions(topics: Topics) -> None:
    """What is committed behind another query's open transaction is found: the reader waits until that one has ended."""
    topics.sink().write(changes(0, [row("a")]))
    config = {"bootstrap.servers": topics.servers, "transactional.id": topics.name}
    other = Producer({**config, "transaction.timeout.ms": 8_000})
    other.init_transactions()
    other.begin_transaction()
    other.produce(topics.topic("t-windows-batches"), b'{"format": 1}', b"query:other")
    other.flush()
    with pytest.raises(SinkError, match="a transaction of another producer on it is open"):
        topics.sink(timeout=4).last_batch("one")
    assert 0 == number_of(topics.sink().last_batch("one"))
    del other  # ends its connections


@pytest.mark.parametrize("lost", ["request", "answer"])
@pytest.mark.parametrize("batch", [0, 1])
def test_the_end_of_a_transaction_is_lost(topics: Topics, proxy: Proxy, lost: str, batch: int) -> None:
    """Whether the brokers did what they were asked is read from the topic: each batch is written once."""
    sink = KafkaSink(proxy.address, topics.topic("t"), PARTITIONS)
    for number in range(batch):
        sink.write(changes(number, [row("a", n=number)]))
    proxy.plan[:] = [lost] if batch else [None, lost]  # the first is that of the claim
    ended = proxy.ended
    assert sink.write(changes(batch, [row("a", n=batch), row("b", n=batch)]))
    assert proxy.ended > ended
    assert [] == proxy.plan
    assert sink.write(changes(batch + 1, [row("c")]))
    written = [(json.loads(one.key())["k"], dict(one.headers())["batch"]) for one in messages(topics)]
    assert sorted(written) == sorted({*written})
    assert {("a", b"%d" % batch), ("b", b"%d" % batch), ("c", b"%d" % (batch + 1))} <= {*written}


def test_a_transaction_expires(topics: Topics, proxy: Proxy) -> None:
    """The brokers end one that takes too long, and fence its producer: no other driver is blamed, and the batch comes again."""
    sink = KafkaSink(proxy.address, topics.topic("t"), PARTITIONS, config={"transaction.timeout.ms": 1500})
    sink.write(changes(0, [row("a", n=0)]))
    proxy.plan[:] = [4.0]
    assert sink.write(changes(1, [row("a", n=1)]))
    assert [] == proxy.plan
    assert [1] == [one["n"] for one in topics.rows()]
    assert [b"0", b"1"] == [dict(one.headers())["batch"] for one in messages(topics)]


def test_what_is_too_large_is_refused(topics: Topics) -> None:
    """By the client and by the topic; nothing of the batch is written, and a later batch is."""
    sink = topics.sink()
    sink.write(changes(0, [row("a", n=0)]))
    large = changes(1, [row("b"), row(random.Random(1).randbytes(1_000_000).hex())])
    with pytest.raises(SinkError, match=r"Raise message\.max\.bytes in the sink's config"):
        sink.write(large)
    with pytest.raises(SinkError, match=r"max\.message\.bytes of the topic"):
        topics.sink(config={"message.max.bytes": 9_000_000}).write(large)
    assert topics.sink().write(changes(1, [row("a", n=1)]))
    assert [1] == [one["n"] for one in topics.rows()]


def test_a_broker_that_cannot_be_reached_is_named() -> None:
    """Before a query starts, and in a batch, after the time that the sink was given."""
    sink = KafkaSink("127.0.0.1:9", "t", 3, timeout=1)
    with pytest.raises(SinkError, match=r"Kafka at 127.0.0.1:9 .* Are the brokers running"):
        upsert_to(sink, keys=["k"])
    with pytest.raises(SinkError, match="Are the brokers running"):
        sink.write(changes(0, [row("a")]))


def test_a_broker_that_is_killed_and_comes_back(topics: Topics, broker: Broker) -> None:
    """A batch waits for it, and is written once."""
    sink = topics.sink()
    sink.write(changes(0, [row("a", n=0)]))
    broker.kill()
    broker.start()
    assert sink.write(changes(1, [row("a", n=1), row("b", n=1)]))
    assert [b"0", b"1", b"1"] == sorted(dict(one.headers())["batch"] for one in messages(topics))


def test_a_broker_is_killed_at_the_end_of_a_transaction(topics: Topics, broker: Broker, proxy: Proxy) -> None:
    """The rows are sent, and the broker dies before it takes the commit: the batch is there once."""
    sink = KafkaSink(proxy.address, topics.topic("t"), PARTITIONS)
    sink.write(changes(0, [row("a", n=0)]))
    proxy.plan[:] = [5.0]
    ended = proxy.ended
    with ThreadPoolExecutor(1) as pool:
        written = pool.submit(sink.write, changes(1, [row(f"key-{n}", n=1) for n in range(1_000)]))
        until(lambda: proxy.ended > ended)
        broker.kill()
        broker.start()
        assert written.result()
    assert 1_001 == len(messages(topics))
    assert 1_001 == len(topics.rows())


def test_a_broker_is_killed_while_batches_are_written(topics: Topics, broker: Broker) -> None:
    """Whenever it dies, each message of each batch is there once."""
    seed = random.randrange(2**32)
    print(f"seed {seed}")  # noqa: T201 - to repeat the test
    rng, sink, batches, rows = random.Random(seed), topics.sink(), 12, 3_000

    def write_all() -> list[bool]:
        return [
            sink.write(changes(batch, [row(f"key-{n}", n=batch) for n in range(rows)]))
            for batch in range(batches)
        ]

    with ThreadPoolExecutor(1) as pool:
        written = pool.submit(write_all)
        for _ in range(3):
            time.sleep(rng.random())
            broker.kill()
            broker.start()
        assert [True] * batches == written.result()
    found = [(one.key(), dict(one.headers())["batch"]) for one in messages(topics)]
    assert batches * rows == len(found) == len({*found})


def test_a_producer_ends_with_its_sink(topics: Topics) -> None:
    """It leaves no threads, which would go on connecting: neither when the sink goes, nor with an error that somebody keeps."""

    def threads() -> list[str]:
        names = [path.read_text() for path in Path("/proc/self/task").glob("*/comm")]
        return sorted(name for name in names if name.startswith("rdk:"))

    gc.collect()
    before = threads()
    gc.disable()
    try:
        sink = topics.sink()
        sink.write(changes(0, [row("a")]))
        assert topics.sink().write(changes(1, [row("a")]))
        with pytest.raises(SinkError, match="another process writes") as kept:
            sink.write(changes(2, [row("a")]))
        del sink
        until(lambda: len(threads()) <= len(before))
        assert kept.value
    finally:
        gc.enable()


def test_a_new_query_has_a_higher_incarnation(topics: Topics) -> None:
    """Its numbers begin anew, and its messages count more than those of the older one."""
    topics.sink().write(changes_of(session_rows(("ann", 0, 1, 3, "update", 80)), ["user"], "old", 90))
    topics.sink().write(changes_of(session_rows(("ann", 0, 1, 4, "update", 1)), ["user"], "new", 0))
    assert [4] == [one["n"] for one in topics.rows()]
    assert [b"1", b"2"] == [dict(one.headers())["incarnation"] for one in messages(topics)]


def produce(topics: Topics, *rows: tuple[str, str | None, int, int], abort: bool = False) -> None:
    """Write messages (key, value, incarnation, sequence) as any other writer does."""
    with Producer({"bootstrap.servers": topics.servers, "transactional.id": topics.name}) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        for key, value, incarnation, sequence in rows:
            headers = [("incarnation", b"%d" % incarnation), ("sequence", b"%d" % sequence)]
            producer.produce(topics.topic("t"), value, key, headers=headers)
        producer.flush()
        (producer.abort_transaction if abort else producer.commit_transaction)()


def test_a_topic_is_folded_in_any_order(topics: Topics) -> None:
    """Repeated and out of order; deleted rows stay deleted; what was aborted was never there."""
    create(topics, {})
    produce(
        topics, ("a", "new", 1, 5), ("a", "old", 1, 4), ("a", None, 1, 3), ("b", None, 1, 7), ("b", "x", 1, 6)
    )
    produce(topics, ("c", "older query", 1, 90), ("c", "newer query", 2, 1), ("c", "older query", 1, 91))
    produce(topics, ("a", "aborted", 9, 9), ("d", "aborted", 9, 9), abort=True)
    assert {b"a": b"new", b"c": b"newer query"} == read_table(topics.servers, topics.topic("t"))


def create(topics: Topics, config: dict[str, str], partitions: int = 1) -> None:
    admin, name = AdminClient({"bootstrap.servers": topics.servers}), topics.topic("t")
    admin.create_topics([NewTopic(name, partitions, 1, config=config)])[name].result()


def test_a_compacted_topic_is_the_same_table(topics: Topics) -> None:
    """The broker's cleaner has removed older messages and tombstones of what one writer wrote in order."""
    create(
        topics,
        {
            "cleanup.policy": "compact",
            "segment.ms": "100",
            "min.cleanable.dirty.ratio": "0.01",
            "delete.retention.ms": "0",
        },
    )
    sink = topics.sink(partitions=None)
    for batch in range(12):
        deletes = [row(f"key-{batch - 1}")] if batch % 3 == 0 else []
        sink.write(changes(batch, [row(f"key-{batch}", n=batch), row("a", n=batch)], deletes))
        time.sleep(0.15)
    wanted = topics.rows()
    assert 10 == len(wanted)
    numbers = itertools.count(batch + 1)  # segments that are written to are not compacted
    until(lambda: sink.write(changes(next(numbers), [row("a", n=11)])) and len(messages(topics)) <= 12)
    assert wanted == sorted(topics.rows(), key=wanted.index)


def test_arguments_are_checked() -> None:
    """Before anything is asked of a broker; a password is not shown, and a sink can be pickled."""
    for arguments, message in (
        (("", "t"), "servers takes a text"),
        (("s", 5), "topic takes a text"),
        (("s", "t", 0), "partitions takes a number of at least 1"),
        (("s", "t", 1, None, "key"), "partition_by is 'keys' or 'message'"),
        (
            ("s", "t", 1, None, "keys", {"transactional.id": "x"}),
            "config has transactional.id, which the sink sets",
        ),
    ):
        with pytest.raises(DefinitionError, match=message):
            KafkaSink(*arguments)
    sink = KafkaSink("s", "t", config={"sasl.password": "hunter2"})
    assert "hunter2" not in repr(sink)
    assert sink == pickle.loads(pickle.dumps(sink))  # noqa: S301 - its own bytes
