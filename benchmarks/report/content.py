"""The questions of the report, in order."""

from benchmarks.report.growth import GROWTH
from benchmarks.report.nexmark import DELAYS, RATES
from benchmarks.report.questions import (
    BarChart,
    LineChart,
    Question,
    kept,
    mebibytes,
    milliseconds,
    resident,
    seconds,
)

RATE = "rows/s"
STATE_CHANGE = "state: a batch that changes 1 % of the keys"
STATE_RESTART = "state: a restart without it"
MANY_KEYS = "10 million live keys"
AGE = "a stream that grows older"
KINDS = "tumbling", "hopping", "session", "sliding"
STREAMED = KINDS[:3]
"""Those that Spark has in streaming too."""
PEERS_CHART = LineChart(
    "sliding windows, local", "per_window", f"{RATE}, sliding windows", "records per window", {"keys": 100}
)
QUESTIONS = [
    Question(
        "How fast are sliding windows, compared with other systems?",
        "Higher is faster, and a flat line means that longer windows cost no more. Both axes are logarithmic: equal distances "
        "are equal ratios.",
        [PEERS_CHART],
    ),
    Question(
        "And the other windows?",
        "Longer bars are faster. The axis is logarithmic, and the number at each bar is rows per second.",
        [
            BarChart((f"{kind} windows, local",), f"{RATE}, {kind}", {"keys": 100}, log=True)
            for kind in STREAMED
        ],
    ),
    Question(
        "How fast are aggregates beside each record, over several lookbacks?",
        "Longer bars are faster: rows per second with five results for each lookback. Three lookbacks share their panes.",
        [
            BarChart(("rolling windows, local",), f"{RATE}, local", {"keys": 100}),
            BarChart(("batch: rolling windows",), f"{RATE}, batch on Spark"),
        ],
    ),
    Question(
        "How fast are estimates, compared with what they estimate?",
        "Longer bars are faster: records per second with results over a minute and an hour beside each record, by processor "
        "time. With one key, an hour has 36,000 records.",
        [
            BarChart(("estimates",), f"{RATE}, {keys}", {"keys": n})
            for n, keys in ((1, "1 key"), (100, "100 keys"))
        ],
    ),
    Question(
        "What do maps of categories cost?",
        "Longer bars are faster: records per second, by processor time, of tumbling windows with 60 records of each of 100 "
        "keys, and of records with their last ten minutes beside them. Where the category is a key instead, each category has "
        "a row; then maps are made of them.",
        [
            BarChart((section,), f"{RATE}, {name}{n} categories", {"categories": n})
            for section, name in (("categories", ""), ("categories beside records", "beside records, "))
            for n in (3, 300)
        ],
    ),
    Question(
        "Which backend for which number of keys?",
        "Left: all keys have records in each batch, so that the cost is that of reading and writing their pages; higher is "
        "faster. Right: time of a batch with 1,000 active keys and a growing number of idle keys with open windows; it should "
        "be flat.",
        [
            LineChart("number of keys", "keys", f"{RATE}, all keys in each batch", "keys"),
            LineChart("idle keys", "idle", "ms per batch, with idle keys", "idle keys", value=milliseconds),
        ],
    ),
    Question(
        "Which backend for which size of state?",
        "Lower is better: the cost of a batch that changes 1 % of the keys, the bytes that it writes, and the time until a "
        "worker that lost its local state continues. Each key has ten panes; Spark's state store has nothing to restore.",
        [
            LineChart(STATE_CHANGE, "keys", "ms to commit a change of 1 %", "keys", value=milliseconds),
            LineChart(STATE_CHANGE, "keys", "MiB written by it", "keys", value=mebibytes),
            LineChart(STATE_RESTART, "keys", "ms to restart", "keys", value=milliseconds),
        ],
    ),
    Question(
        "How much memory do millions of live keys need?",
        "Left, shorter is better: the peak memory of a worker on rocksdb at the end of each stage. Right, longer is faster: "
        "rows per second in that stage.",
        [
            BarChart((MANY_KEYS,), "MB resident", value=resident),
            BarChart((MANY_KEYS,), RATE),
        ],
    ),
    Question(
        "Does a stream become slower, or its checkpoint larger, over time?",
        "Both should be flat once Spark starts to drop old batches, here after 20. Left: bytes on disk, checkpoint and "
        "snapshots together. Right: time of a batch of 2,000 rows.",
        [
            LineChart(AGE, "batches", "MB on disk", "batches", value=kept),
            LineChart(AGE, "batches", "ms per batch", "batches", value=milliseconds),
        ],
    ),
    Question(
        "How does cost grow with records out of order?",
        "Higher is faster. Left: by the share of records that are out of order (by up to 100 records of their key). Right: by "
        "the distance, for a tenth of the records; grace is as long, so that state grows with it.",
        [
            LineChart(
                "records out of order", "share", f"{RATE} by share out of order", "share", {"distance": 100}
            ),
            LineChart(
                "records out of order",
                "distance",
                f"{RATE} by distance",
                "records of the key",
                {"share": 0.1},
            ),
        ],
    ),
    Question(
        "What does emission cost?",
        "Longer bars are faster: windows are emitted once, on close, or after each batch that changes them.",
        [BarChart(("when windows are emitted",), RATE)],
    ),
    Question(
        "How far is a stream on Spark from the lower bound?",
        "Shorter is better: seconds for a batch of 500,000 rows. The pale part is the time of a batch of a few rows of that "
        "query. The lower bound is to pass the same rows, or two for each, through Python unchanged.",
        [
            BarChart(
                ("streaming: pass-through", *(f"streaming: {kind} windows" for kind in KINDS)),
                "seconds per batch",
                value=seconds,
                without="Spark's own",
                floor=True,
                named=True,
            )
        ],
    ),
    Question(
        "What does a small batch cost, and each bucket?",
        "Lower is better: time of a batch of 2,000 rows, by the number of buckets, which are shuffle partitions to Spark's own "
        "windows. Each is a task and a state store that commits in every batch. All keep state on Spark's RocksDB provider, "
        "and their batches take turns in one session with two cores. The processor that counts is the least that PySpark's "
        "stateful operators cost: it reads and writes one value.",
        [
            LineChart(
                f"small batches: {kind} windows",
                "buckets",
                f"ms per batch, {kind}",
                "buckets",
                value=milliseconds,
            )
            for kind in ("tumbling", "session")
        ],
    ),
    Question(
        "How fast, compared with Spark's own windows?",
        "Longer bars are faster. The axes are logarithmic.",
        [
            BarChart(
                tuple(f"{how}: {kind} windows" for kind in kinds),
                f"{RATE}, {how}",
                log=True,
                named=True,
            )
            for how, kinds in (("batch", KINDS), ("streaming", STREAMED))
        ],
    ),
    Question(
        "How fast are Nexmark's windows, beside Spark's own and Flink's?",
        "Longer bars are faster: bids per second on two cores, by bids in a batch; Flink has none. The axes are logarithmic.",
        [
            BarChart((RATES,), f"bids/s, {query}", {"query": query}, log=True)
            for query in ("q5", "q7", "q11", "q12", "rolling", "rolling, hot")
        ],
    ),
    Question(
        "How soon do Nexmark's results come?",
        "Shorter is better: median seconds from a bid to its results, at 20,000 bids/s.",
        [BarChart((DELAYS,), "seconds", value=seconds)],
    ),
    Question(
        "What does the state of a history cost?",
        "Longer bars are faster: a bounded DataFrame becomes a savepoint, from which a stream starts. The more windows are "
        "still open at its close time, the more entries are sorted and written.",
        [BarChart(("batch: state of a history",), RATE)],
    ),
    Question(
        "How much do panes save, compared with KIP-450 as specified?",
        "Higher is faster. KIP-450 adds each record to each window that contains it; panes are combined instead. The folds in "
        "plain Python are those of `agg.fold` without and with `merge`.",
        [LineChart("panes beside KIP-450", "per_window", RATE, "records per window")],
    ),
    Question(
        "What do finding windows, combining panes and encoding pages cost?",
        "Higher and longer are faster. Left: finding the windows over a million panes, and combining the range of each window. "
        "Right: encoding panes as pages, and decoding them.",
        [
            LineChart("kernel", "per_window", f"{RATE}, kernel", "records per window"),
            BarChart(("pages",), f"{RATE}, pages", log=True),
        ],
    ),
    Question(
        "What do the calls of the window store cost?",
        "Longer is faster, and the axis is logarithmic: entries per second that are written, fetched by key, read in order, or "
        "dropped with their segment, whose cost does not depend on their number.",
        [BarChart(("calls of the window store",), RATE, log=True)],
    ),
    *GROWTH,
    Question(
        "What does one hot key cost, and what if each batch touches each of 100,000 keys?",
        "Longer is faster. Left: half of a million records are of one key, or all keys are equally frequent. Right: batches of "
        "250,000 rows.",
        [
            BarChart(("one hot key",), f"{RATE}, half of all records of one key"),
            BarChart(("100,000 keys in each batch",), f"{RATE}, all keys in each batch"),
        ],
    ),
]
