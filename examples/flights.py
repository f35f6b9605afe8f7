"""A year of departures from New York as a stream: delays over every distinct hour, in a table and a picture.

    python -m examples.flights                      run, or go on where an earlier run stopped
    python -m examples.flights --fresh              start over
    python -m examples.flights --backend memory     another state backend, the same windows

Flights arrive in scheduled order and count when they really left: delays put them out of order.
"""

import argparse
import shutil
import sys
import textwrap
import time
from collections.abc import Sequence
from pathlib import Path

from examples.flights_data import (
    AIRPORTS,
    About,
    departed,
    half_months,
    load_flights,
    read_about,
    write_source,
)
from examples.flights_log import Batch, RunLog
from examples.flights_picture import draw
from examples.flights_report import BATCH_HEADER, batch_line, notes, worst_table
from examples.flights_stream import DEFAULT_BACKEND, Folders, flights_session, run
from examples.flights_windows import LEAST_FLIGHTS, of_airport, read_windows, worst_hours
from state_backends import resolve

GRACE = "6 hours"
WORST = 5
_GO_ON = "Nothing is lost: the same command goes on from there, --fresh starts over."


def main(given: Sequence[str] | None = None) -> int:
    """Run the demo; return the exit code."""
    options = _arguments(given)
    folders = Folders(options.out)
    if options.fresh:
        _forget(folders)
    folders.out.mkdir(parents=True, exist_ok=True)
    log = RunLog.open(folders.log, options.grace or GRACE)
    if options.grace not in (None, log.grace):
        print(f"The run in {folders.out} has a grace of {log.grace}; --fresh starts over with another.")
        return 2
    try:
        about = _source(folders)
        if log.finished or _stream(folders, log, options):
            _report(folders, log, about)
    except KeyboardInterrupt:
        print(f"\nBroken off. {_GO_ON}")
        return 130
    return 0


def _arguments(given: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m examples.flights", description=__doc__.split("\n", 1)[0])
    parser.add_argument("--backend", help=f"state backend (default: {DEFAULT_BACKEND})")
    parser.add_argument("--grace", help=f"how long windows wait for flights (default: {GRACE})")
    parser.add_argument(
        "--stop-after", type=int, metavar="N", help="stop after N batches; start again to go on"
    )
    parser.add_argument("--fresh", action="store_true", help="forget earlier runs and start over")
    parser.add_argument(
        "--out", type=Path, default=Path("build/flights"), help="folder of the run (default: %(default)s)"
    )
    options = parser.parse_args(given)
    try:
        resolve(options.backend)
    except ValueError as error:
        parser.error(str(error))
    return options


def _forget(folders: Folders) -> None:
    for folder in (folders.source, folders.checkpoint, folders.windows, folders.state):
        shutil.rmtree(folder, ignore_errors=True)
    for file in (folders.log, folders.messages, folders.picture):
        file.unlink(missing_ok=True)


def _source(folders: Folders) -> About:
    """Write the stream's files if they are not there; tell what they hold."""
    if not folders.source.exists():
        flights = load_flights()
        write_source(flights, half_months(departed(flights)), folders.source)
    about = read_about(folders.source)
    print(
        f"{about.flights:,} flights were to leave New York in 2013. {about.cancelled:,} were cancelled and are left out:\n"
        f"they have no event time. The others wait in {folders.source} in scheduled order, a file per half month."
    )
    return about


def _stream(folders: Folders, log: RunLog, options: argparse.Namespace) -> bool:
    """Run the stream; return whether it reached its end."""
    print(f"Starting Spark, whose own messages go to {folders.messages}.")
    before, began = len(log.batches), time.monotonic()
    with flights_session(folders) as spark:
        if log.batches:
            print(f"An earlier run has done batches 0 to {max(log.batches)}: going on after it.")
        print(f"\n{BATCH_HEADER}")
        finished = run(
            spark, folders, log, backend=options.backend, stop_after=options.stop_after, tell=_tell
        )
    done, seconds = len(log.batches) - before, time.monotonic() - began
    print(f"\n{done} batch{'' if done == 1 else 'es'} in {seconds:.0f} seconds, the start of Spark included.")
    if not finished:
        print(f"Stopped. {_GO_ON}")
    return finished


def _tell(batch: Batch) -> None:
    print(batch_line(batch), flush=True)


def _report(folders: Folders, log: RunLog, about: About) -> None:
    """Print the worst hours and what was counted, and draw the picture."""
    windows = read_windows(folders.windows)
    worst = {origin: worst_hours(of_airport(windows, origin), WORST) for origin in AIRPORTS}
    said = notes(about, log, windows.num_rows)
    print(
        f"\nThe worst hours of 2013 with {LEAST_FLIGHTS} flights or more, one a day\n\n{worst_table(worst)}\n"
    )
    print(*(textwrap.fill(sentence, 100) for sentence in [*said, *_advice(log)]), sep="\n")
    draw(windows, worst, said, folders.picture)
    print(f"\nThe year as a picture: {folders.picture}")


def _advice(log: RunLog) -> list[str]:
    if not log.total("late"):
        return []
    return [
        "With --fresh --grace '24 hours' none is late: flights overtake each other by less than 22 hours."
    ]


if __name__ == "__main__":
    sys.exit(main())
