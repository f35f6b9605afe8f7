"""What the demo says: a line for each batch, the worst hours as a table, and what was counted."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime

from examples.flights_data import AIRPORTS, About
from examples.flights_log import Batch, RunLog
from examples.flights_windows import Hour

BATCH_HEADER = "batch  departures                     flights   windows  late  closed up to  backend  seconds"
TABLE_HEADER = "airport          day         departures     flights   mean delay        worst"
_DASH = "\N{EN DASH}"


def batch_line(batch: Batch) -> str:
    """Return a batch as a line below `BATCH_HEADER`."""
    came = "none, time moves on"
    if batch.first is not None and batch.last is not None:
        came = f"{moment(batch.first)} {_DASH} {moment(batch.last)}"
    closed = moment(batch.closed_to) if batch.closed_to is not None else _DASH
    return (
        f"{batch.number:>5}  {came:<29}{batch.flights:>9,} {batch.windows:>9,} {batch.late:>5,}  {closed:<12}"
        f"  {batch.backend:<7} {batch.seconds:>8.1f}"
    )


def worst_table(worst: Mapping[str, Sequence[Hour]]) -> str:
    """Return the worst hours by airport as a table."""
    return "\n".join(
        [TABLE_HEADER, *(line for origin, hours in worst.items() for line in _rows(origin, hours))]
    )


def _rows(origin: str, hours: Sequence[Hour]) -> Iterator[str]:
    yield ""
    labels = [AIRPORTS[origin], origin, *[""] * len(hours)]
    for label, hour in zip(labels, hours, strict=False):
        delays = f"{spoken(hour.mean_delay):>13}{spoken(hour.worst):>13}"
        yield f"{label:<17}{weekday(hour):<12}{span(hour):<15}{hour.flights:>7}{delays}"


def notes(about: About, log: RunLog, windows: int) -> list[str]:
    """Return in sentences what was counted and what is missing."""
    counted = (
        f"{about.flights:,} flights, of which {about.cancelled:,} never left. {windows:,} windows: one for each "
        "distinct set of departures within 60 minutes of each other. Times are local."
    )
    found = [counted, _late(log)]
    if bad := log.total("bad"):
        found.append(f"{bad:,} rows had no usable time and were dropped.")
    if log.closed_to is not None:
        found.append(f"Hours that end on {moment(log.closed_to)} or later are still open and not among them.")
    if log.missing:
        listed = ", ".join(map(str, log.missing))
        found.append(f"The counts of these batches are not known, as the process was killed: {listed}.")
    return found


def _late(log: RunLog) -> str:
    late = [batch for batch in log.batches.values() if batch.late]
    if not late:
        return f"No flight was late: a grace of {log.grace} was enough."
    until = " and ".join(moment(batch.closed_to) for batch in late if batch.closed_to is not None)
    return (
        f"{log.total('late'):,} flights were late and left out: all their windows, up to {until}, had closed when they "
        f"came (grace {log.grace})."
    )


def moment(when: datetime) -> str:
    """Return a time such as `7 Jul 19:05`."""
    return f"{when.day} {when:%b %H:%M}"


def weekday(hour: Hour) -> str:
    """Return an hour's day, such as `Fri 8 Mar`."""
    return f"{hour.first:%a} {hour.first.day} {hour.first:%b}"


def span(hour: Hour) -> str:
    """Return an hour's first and last minute, such as `19:49-20:49`."""
    return f"{hour.first:%H:%M}{_DASH}{hour.last:%H:%M}"


def spoken(minutes: float) -> str:
    """Return a length in minutes as text, such as `3 h 40 min`."""
    hours, rest = divmod(abs(round(minutes)), 60)
    length = f"{hours} h {rest:02} min" if hours else f"{rest} min"
    return f"-{length}" if round(minutes) < 0 else length
