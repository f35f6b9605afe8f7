"""Windows from a topic to a topic, exactly once, beside Kafka Streams: `python -m benchmarks.kafka [--out FILE]`.

Sliding windows and sessions on RocksDB. Both systems read the same records, and the rows of each are compared with a run
without Kafka: after a backlog, after a paced stream, and after a kill. It needs Maven and a JDK 17, and takes some minutes.
"""

import argparse
import json
import sys
import tempfile
from collections.abc import Iterable, Iterator
from itertools import product
from pathlib import Path
from typing import Any

from benchmarks.kafka.comparison import Figures, Load, measured
from benchmarks.kafka.records import LENGTHS_MS
from benchmarks.kafka.systems import SYSTEMS
from examples.kafka.broker import running_broker
from examples.kafka.jars import MissingError
from tests.conformance.live.peers import why_not


def main() -> int:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.kafka", description=__doc__.split("\n", 1)[0])
    parser.add_argument("--records", type=int, default=100_000, help="in the backlog (default: %(default)s)")
    parser.add_argument("--keys", type=int, default=1_000, help="different keys (default: %(default)s)")
    parser.add_argument("--pace", type=float, default=1_000, help="records/s after it (default: %(default)s)")
    parser.add_argument("--seconds", type=float, default=15, help="of the pace (default: %(default)s)")
    parser.add_argument("--window", action="append", choices=LENGTHS_MS, help="by default both")
    parser.add_argument("--system", action="append", choices=SYSTEMS, help="by default both")
    parser.add_argument("--out", type=Path, help="file for the figures, as JSON")
    options = parser.parse_args()
    if why_not():
        print(f"skipped: {why_not()}")
        return 0
    found: list[dict[str, Any]] = []
    load = Load(options.records, options.keys, options.pace, options.seconds)
    try:
        with tempfile.TemporaryDirectory() as name:
            cases = product(options.window or LENGTHS_MS, options.system or SYSTEMS)
            for figures in _measured(Path(name), cases, load):
                print(_line(figures), flush=True)
                found.append(figures.as_json())
                if options.out:
                    options.out.write_text(json.dumps(found, indent=1) + "\n")
    except MissingError as error:
        print(f"skipped: {error}")
        return 0
    return 0


def _measured(folder: Path, cases: Iterable[tuple[str, str]], load: Load) -> Iterator[Figures]:
    """Yield the figures of each window and system."""
    (folder / "broker").mkdir()
    with running_broker(folder / "broker") as broker:
        for window, system in cases:
            yield measured(SYSTEMS[system], window, broker, folder, load)


def _line(of: Figures) -> str:
    return (
        f"{of.window:8} {of.system:14} {of.events_per_second:9,} events/s, {of.messages:9,} messages; committed after "
        f"{of.delay_p50:.2f} s (p50), {of.delay_p99:.2f} s (p99); {of.local_bytes / 1e6:.1f} MB on the disk, "
        f"{of.durable_bytes / 1e6:.1f} MB to restore from; {of.restart_seconds} s after a kill"
    )


if __name__ == "__main__":
    sys.exit(main())
