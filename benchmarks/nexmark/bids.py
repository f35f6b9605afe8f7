"""Nexmark's bids: of 50 events one is a person, three are auctions, and 46 are bids, in order of event time.

A bid's columns follow from its number by integer arithmetic, so that SQL can make the same ones: `flink.py` does. The shares of
bids for hot auctions and by hot bidders are those of the published generator (https://github.com/nexmark/nexmark). So are live
people and auctions, but for their number, `LIVE`: a state of a thousand keys would be in any processor's cache. Prices are
spread evenly, as no query depends on them.
"""

from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

LIVE = 100_000
"""People who bid, and auctions that are open, at a time."""
BEGIN_MS = 1_700_000_000_000
EVENT_US = 100
"""From one event to the next: 10,000 events/s."""
SLOW_EVENT_US = 25_000
"""The same for windows of a day."""
DAY_US = 86_400_000_000
SCHEMA = "auction bigint, bidder bigint, price bigint, at timestamp"
PRIME = 2_147_483_647
SALTS = {
    "hot auction": 48_271,
    "auction": 69_621,
    "hot bidder": 1_223_106,
    "bidder": 630_360,
    "price": 742_938,
}
"""Factors of pseudo-random numbers, different ones for each choice."""
Ints = npt.NDArray[np.int64]


def drawn(number: Ints, salt: int) -> Ints:
    """Return pseudo-random numbers below `PRIME`: products stay below 2**63."""
    first = (number * salt + salt) % PRIME
    second = (first * first + number) % PRIME
    return (second * 16_807 + first) % PRIME


def at_us(number: Ints, event_us: int) -> Ints:
    """Return event times by numbers of bids, in microseconds, but whole milliseconds."""
    event = number // 46 * 50 + 4 + number % 46
    return BEGIN_MS * 1_000 + event * event_us // 1_000 * 1_000


def bids(first: int, count: int, event_us: int = EVENT_US, *, hot: bool = True) -> pa.Table:
    """Return bids by their numbers.

    Args:
        first: number of the first one.
        count: how many.
        event_us: from one event to the next, in microseconds.
        hot: whether three quarters of the bids are by one bidder of a hundred new people, and half of them for one auction of a
            hundred new ones.
    """
    number = np.arange(first, first + count)
    epoch = number // 46
    person, auction = LIVE + epoch, LIVE + epoch * 3 + 2  # the newest ones
    some = drawn(number, SALTS["auction"]) % (LIVE + 10)
    by = drawn(number, SALTS["bidder"]) % (LIVE + 10)
    hot_auction = hot & (drawn(number, SALTS["hot auction"]) // 8 % 2 > 0)
    hot_bidder = hot & (drawn(number, SALTS["hot bidder"]) // 8 % 4 > 0)
    columns = {
        "auction": np.where(hot_auction, auction // 100 * 100, auction - LIVE + some),
        "bidder": np.where(hot_bidder, person // 100 * 100 + 1, person - LIVE + 1 + by),
        "price": 100 + drawn(number, SALTS["price"]) % 9_900,
        "at": pa.array(at_us(number, event_us), pa.timestamp("us", "UTC")),
    }
    return pa.table(columns)


def write(folder: Path, first: int, count: int, batch: int, event_us: int, *, hot: bool) -> None:
    """Write bids as files of so many rows, whose names have the numbers of their first rows."""
    folder.mkdir(exist_ok=True)
    end = first + count
    for begin in range(first, end, batch):
        table = bids(begin, min(batch, end - begin), event_us, hot=hot)
        pq.write_table(table, folder / f"{begin:012}.parquet")


def write_last(folder: Path, number: int) -> None:
    """Write a bid much later than all others: it closes all windows, and is in none of them."""
    late = pa.array([(BEGIN_MS * 1_000 + 1_000 * DAY_US)], pa.timestamp("us", "UTC"))
    table = bids(number, 1)
    pq.write_table(
        table.set_column(table.schema.get_field_index("at"), "at", late), folder / f"{number:012}.parquet"
    )
