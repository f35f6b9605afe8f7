"""A local runner that forgets keys, and is killed then: python -m tests.faults.local_forgets FOLDER BACKEND.

It prints a line before the batch that forgets, and at its end the counts of all keys. Each batch has a record of each key.
"""

import json
import sys
from pathlib import Path

import pyarrow as pa

from operators import TumblingWindows
from operators import aggregates as agg

KEYS = [f"key-{number}" for number in range(20_000)]
GONE = KEYS[::3]
BATCHES, WITH = 6, 3
"""How many batches there are, and the number of the one that forgets."""


def main(folder: Path, backend: str) -> None:
    """Go on after the last batch that was committed, which a count of the state tells."""
    op = TumblingWindows("1 day", grace="1 day").group_by("k").aggregate(n=agg.count())
    snapshots = {"state.snapshots.folder": folder / "snapshots", "state.snapshots.batches": 2}
    options = {} if backend == "spark" else snapshots
    with op.local_runner("t", backend=backend, directory=folder / "runner", options=options) as runner:
        schema = pa.schema({"k": pa.string(), "t": pa.timestamp("us")})
        runner.process(schema.empty_table(), 0)
        kept = {row["k"]: row["n"] for row in runner.open_windows().to_pylist()}
        for number in range(kept.get(KEYS[1], 0), BATCHES):
            table = pa.table({"k": KEYS, "t": pa.array([number] * len(KEYS), pa.timestamp("us"))})
            gone = [{"k": key} for key in GONE] if number == WITH else None
            if gone:
                print("forgets", flush=True)  # noqa: T201 - the test waits for it
            runner.process(table, forget=gone)
        rows = {row["k"]: row["n"] for row in runner.open_windows().to_pylist()}
    print(json.dumps(rows))  # noqa: T201 - read by the test


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
