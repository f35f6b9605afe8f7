"""How long an answer from a table of pages takes, what publishing adds to a batch, and how new answers are.

python -m benchmarks.serving [--keys 1000000] [--busy 1000000] [--questions 1000] [--tables sqlite postgres redis]
                             [--only answers clients commit raw freshness spark day] [--out serving.json]

Three lookbacks up to 30 days and five aggregates. Each key has a record in each of three batches, and one key has `--busy`
records. Beside the answers: a SELECT over the same records in PostgreSQL, with an index on key and time.
"""

import argparse
import json
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from benchmarks.serving.asking import (
    beside_writing,
    many_keys,
    one_key,
    percentiles,
    plain_loop,
    several_clients,
)
from benchmarks.serving.beside import batches_on_spark, freshness, raw_rows
from benchmarks.serving.day import days
from benchmarks.serving.filled import TABLES, Filled, table_of

BATCHES = 3
PARTS = "answers", "clients", "commit", "raw", "freshness", "spark", "day"


def main() -> None:
    """Measure, and print each figure as a line of JSON."""
    given = _arguments()
    figures = list[dict[str, Any]]()

    def note(what: str, **found: Any) -> None:
        figures.append({"what": what, **found})
        print(json.dumps(figures[-1]), flush=True)

    with tempfile.TemporaryDirectory() as folder:
        if {"answers", "clients", "commit"} & {*given.only}:
            tables(Path(folder), given, note)
        beside(Path(folder), given, note)
    if given.out:
        given.out.write_text(
            json.dumps({"arguments": vars(given) | {"out": None}, "figures": figures}, indent=1) + "\n"
        )


def beside(folder: Path, given: argparse.Namespace, note: Any) -> None:
    """What is measured beside answers of tables."""
    if "raw" in given.only:
        for key, found in raw_rows(given.keys, given.busy, BATCHES, given.questions).items():
            note("a SELECT over raw rows", table="postgres", key=key, **found)
    if "spark" in given.only:
        with ExitStack() as stack:
            place = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            made = {kind: stack.enter_context(table_of(kind, place)) for kind in given.tables}
            seconds = batches_on_spark(place, made, given.keys, given.busy, 2 * BATCHES)
        note("seconds of a batch on Spark", rows=given.keys + given.busy // (2 * BATCHES), **seconds)
    if "day" in given.only:
        place = folder / "day"  # SQLite's file of the answers is not this one
        place.mkdir()
        for found in days(place, given.tables, 20_000, 500, given.batches):
            note("after so many batches", **found)
    if "freshness" in given.only:
        for trigger, found in freshness(folder, given.triggers, given.events).items():
            note("from event to answer", table="sqlite", trigger_s=int(trigger), **found)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--keys", type=int, default=1_000_000)
    parser.add_argument("--busy", type=int, default=1_000_000, help="records of the key that has most")
    parser.add_argument("--many", type=int, default=1_000, help="keys of one question for several")
    parser.add_argument("--questions", type=int, default=1_000)
    parser.add_argument("--clients", type=int, nargs="+", default=[1, 16, 64])
    parser.add_argument("--seconds", type=float, default=10, help="how long clients ask")
    parser.add_argument("--triggers", type=int, nargs="+", default=[0, 1, 10], help="in seconds")
    parser.add_argument("--batches", type=int, default=1_440, help="of the day")
    parser.add_argument("--events", type=int, default=8)
    parser.add_argument("--tables", nargs="+", choices=TABLES, default=TABLES)
    parser.add_argument("--only", nargs="+", choices=PARTS, default=PARTS)
    parser.add_argument("--out", type=Path)
    return parser.parse_args()


def tables(folder: Path, given: argparse.Namespace, note: Any) -> None:
    """What is asked of tables."""
    with ExitStack() as stack:
        made = {kind: stack.enter_context(table_of(kind, folder)) for kind in given.tables}
        filled = Filled(made, given.keys)
        filled.fill(BATCHES, given.busy)
        batch = filled.processing[-1]
        for kind, pages in made.items():
            added = filled.publishing[kind][-1]
            note(
                "what publishing adds to a batch",
                table=kind,
                rows=given.keys + given.busy // BATCHES,
                batch_s=round(batch, 2),
                publishing_s=round(added, 2),
                times_the_batch=round((batch + added) / batch, 2),
            )
            if "answers" in given.only:
                note("a loop of plain Python, for comparison", **percentiles(plain_loop(given.questions)))
                for busy in (False, True):
                    key = "busy" if busy else "usual"
                    note("get", table=kind, key=key, **one_key(pages, given.keys, given.questions, busy=busy))
                count = max(given.questions // 20, 5)
                note(
                    "get_many", table=kind, keys=given.many, **many_keys(pages, given.keys, count, given.many)
                )
            for clients in given.clients if "clients" in given.only else ():
                note(
                    "get of clients",
                    table=kind,
                    clients=clients,
                    **several_clients(pages, given.keys, clients, given.seconds),
                )
            if "commit" in given.only:

                def write(kind: str = kind) -> float:
                    return filled.write(kind, filled.batch + 1)

                note("get during a large batch", table=kind, **beside_writing(pages, given.keys, write))


if __name__ == "__main__":
    main()
