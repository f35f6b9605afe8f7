"""Random cases: options and records, the same for the same seed and number."""

import random
from dataclasses import dataclass
from itertools import accumulate

from tests.conformance.play import Options, Row

KINDS = {
    "kafka": ("sliding", "session", "hopping", "tumbling"),
    "jet": ("session", "hopping", "tumbling"),
}
"""The windows that a peer has and this library has too."""
_EMISSIONS = {"kafka": ("on_update", "on_close"), "jet": ("on_close",)}
_AGGREGATES = ("count", "sum", "min", "max", "collect", "collect")
_SIZES = (1, 2, 3, 5, 10, 16, 60, 200, 1_000)
_MOST_RECORDS = 90
_START = 1_000_000


@dataclass(frozen=True)
class RandomCase:
    """A case without rows.

    Attributes:
        name: seed, number, and what its records are like.
        options, records: as in recorded cases; Jet's hopping and tumbling windows have an offset too.
    """

    name: str
    options: Options
    records: list[Row]


def random_case(peer: str, seed: int, number: int) -> RandomCase:
    """Return one of a seed's cases.

    Args:
        peer: "kafka" or "jet".
        seed, number: of the case.
    """
    rng = random.Random(f"{peer} {seed} {number}")
    kind = rng.choice(KINDS[peer])
    size = rng.choice(_SIZES)
    order = rng.choice(_ORDERS)
    options = {
        "window": kind,
        **_lengths(rng, peer, kind, size),
        "grace": rng.choice((0, 0, 1, size // 2, size, 3 * size)),
        "aggregate": rng.choice(_AGGREGATES),
        "emit": rng.choice(_EMISSIONS[peer]),
    }
    records = _records(rng, size, options["grace"], order, before=peer == "jet")
    return RandomCase(f"{peer} seed {seed} case {number}, {kind}, {order}", options, records)


def _lengths(rng: random.Random, peer: str, kind: str, size: int) -> Options:
    if kind == "session":
        return {"gap": size}
    if kind != "hopping":
        return {"size": size, **({"offset": rng.randrange(size)} if peer == "jet" else {})}
    advance = rng.randint(max(1, size // 40), size)
    if peer == "jet":  # whose sizes are multiples of the advance, and which has offsets
        return {"size": advance * rng.randint(1, 8), "advance": advance, "offset": rng.randrange(advance)}
    return {"size": size, "advance": advance}


_ORDERS = ("in order", "nearly in order", "out of order", "partly late", "late")


def _delays(order: str, size: int, grace: int) -> tuple[float, int, int]:
    """How many of the records are behind the highest event time, and by how much at least and at most."""
    return {
        "in order": (0.0, 0, 0),
        "nearly in order": (0.7, 0, 1 + size // 4),
        "out of order": (1.0, 0, size + grace),
        "partly late": (0.4, grace, grace + size + 2),
        "late": (0.5, 0, 3 * size + 2 * grace),
    }[order]


def _records(rng: random.Random, size: int, grace: int, order: str, *, before: bool) -> list[Row]:
    """Records of one to many keys, from many at one instant to few in a window, and one that closes all windows.

    Args:
        size, grace: of the windows.
        order: how far records are behind.
        before: whether times may be before the epoch.
    """
    keys = [chr(ord("A") + n) for n in range(rng.choice((1, 1, 2, 4, 26)))]
    mean = rng.choice((0.2, 1, size / 8, size / 2, 2 * size))
    fractions = rng.random() < 0.3
    moment = rng.choice((_START, _START, _START, -3 * size if before else 0))
    tied = rng.random() < 0.3
    share, least, most = _delays(order, size, grace)
    records: list[Row] = []
    for _ in range(rng.randint(1, _MOST_RECORDS)):
        if not (tied and records and rng.random() < 0.5):
            moment += int(rng.expovariate(1 / mean) + 0.5)
        behind = rng.randint(least, most) if rng.random() < share else 0
        time = moment - behind if before else max(0, moment - behind)
        value = rng.randint(-5, 20)
        records.append([rng.choice(keys), time, value / 4 if fractions else value])
    return [*records, ["end", moment + 10 * size + 2 * grace, 0]]


def close_times(options: Options, records: list[Row]) -> list[int]:
    """Return the close time that each record finds: the highest event time up to it, its own with it, less the grace."""
    highest = accumulate((time for _, time, _ in records), max)
    return [time - options["grace"] for time in highest]
