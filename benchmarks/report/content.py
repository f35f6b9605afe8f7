"""The questions, one after another."""

from benchmarks.report.questions import (
    Along,
    Beside,
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
GROWTH = "a stream that grows older"
KINDS = "tumbling", "hopping", "session", "sliding"
STREAMED = KINDS[:3]
"""Those that Spark has in streaming too."""
BESIDE_PEERS = Along(
    "sliding windows, local", "per_window", f"{RATE}, sliding windows", "records per window", {"keys": 100}
)
QUESTIONS = [
    Question(
        "How fast are sliding windows, ours beside each peer?",
        "Higher is faster, and a flat line costs no more for longer windows; both axes are logarithmic, so equal distances are "
        "equal ratios.",
        [BESIDE_PEERS],
    ),
    Question(
        "And the other windows?",
        "Longer bars are faster; the axis is logarithmic, the number at each bar is rows a second.",
        [
            Beside((f"{kind} windows, local",), f"{RATE}, {kind}", {"keys": 100}, log=True)
            for kind in STREAMED
        ],
    ),
    Question(
        "Which backend for which number of keys?",
        "Left: all keys have records in each batch, so its cost is that of reading and writing their pages; higher is faster. "
        "Right: time of a batch of 1,000 active keys beside ever more keys that have open windows but no records: it should be "
        "flat.",
        [
            Along("number of keys", "keys", f"{RATE}, all keys in each batch", "keys"),
            Along("idle keys", "idle", "ms a batch, beside idle keys", "idle keys", value=milliseconds),
        ],
    ),
    Question(
        "Which backend for which size of state?",
        "Lower is better: what a batch that changes 1 % of the keys costs, how much it writes, and how long a worker that has "
        "lost its local state takes to go on; there are ten panes for each key, and Spark's own store has nothing to restore.",
        [
            Along(STATE_CHANGE, "keys", "ms to commit a change of 1 %", "keys", value=milliseconds),
            Along(STATE_CHANGE, "keys", "MiB written by it", "keys", value=mebibytes),
            Along(STATE_RESTART, "keys", "ms to restart", "keys", value=milliseconds),
        ],
    ),
    Question(
        "How much memory do millions of live keys need?",
        "Left, shorter is better: the most memory that a worker on rocksdb has had by the end of each stage. Right, longer is "
        "faster: rows a second in that stage.",
        [
            Beside((MANY_KEYS,), "MB resident", value=resident),
            Beside((MANY_KEYS,), RATE),
        ],
    ),
    Question(
        "Does a stream grow slower, or its checkpoint larger, with its age?",
        "Both should be flat once Spark begins to drop old batches, here after 20: left what the query keeps on disk, "
        "checkpoint and snapshots together, right the time of a batch of 2,000 rows.",
        [
            Along(GROWTH, "batches", "MB on disk", "batches", value=kept),
            Along(GROWTH, "batches", "ms a batch", "batches", value=milliseconds),
        ],
    ),
    Question(
        "How does cost grow with records out of order?",
        "Higher is faster: left by the share of records that come late (by up to 100 records of their key), right by how late "
        "a tenth of them comes; the grace is as long, so state grows with it.",
        [
            Along(
                "records out of order", "share", f"{RATE} by share that is late", "share", {"distance": 100}
            ),
            Along(
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
        "Longer bars are faster: windows that are emitted once, when they close, or after each batch that changes them.",
        [Beside(("when windows are emitted",), RATE)],
    ),
    Question(
        "How far from the floor is a stream on Spark?",
        "Shorter is better: seconds for a batch of 500,000 rows, of which the pale part is what a batch of a few rows of the "
        "same query takes; the floor is to pass the same rows, or two for each, through Python untouched.",
        [
            Beside(
                ("streaming: pass-through", *(f"streaming: {kind} windows" for kind in KINDS)),
                "seconds a batch",
                value=seconds,
                without="Spark's own",
                floor=True,
                named=True,
            )
        ],
    ),
    Question(
        "How far from Spark's own windows?",
        "Longer bars are faster; the axes are logarithmic.",
        [
            Beside(
                tuple(f"{how}: {kind} windows" for kind in kinds),
                f"{RATE}, {how}",
                log=True,
                named=True,
            )
            for how, kinds in (("batch", KINDS), ("streaming", STREAMED))
        ],
    ),
    Question(
        "What do panes save beside KIP-450 as written?",
        "Higher is faster: KIP-450 folds each record into every window that holds it, panes are combined instead; folds in "
        "plain Python are what `agg.fold` does without and with `merge`.",
        [Along("panes beside KIP-450", "per_window", RATE, "records per window")],
    ),
    Question(
        "What do the kernel and the pages cost?",
        "Higher and longer are faster: the steps that find windows over a million panes and combine each one's range of them, "
        "and turning panes into pages and back.",
        [
            Along("kernel", "per_window", f"{RATE}, kernel", "records per window"),
            Beside(("pages",), f"{RATE}, pages", log=True),
        ],
    ),
    Question(
        "What do the calls of the window store cost?",
        "Longer is faster, the axis is logarithmic: entries a second that are written, fetched by key, read in order or "
        "dropped with their segment, which costs the same however many they are.",
        [Beside(("calls of the window store",), RATE, log=True)],
    ),
]
