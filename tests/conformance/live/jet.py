"""Jet's rows in the form of the cases, and where they differ from ours on purpose."""

from tests.conformance.live.cases import close_times
from tests.conformance.live.peers import Peer
from tests.conformance.live.verdict import MISSING, Verdict, differences
from tests.conformance.play import FINISH, Options, Played, Row, play

DROPPED = "records that Jet dropped though not all of their windows had closed"
ZERO = "rows of hopping windows whose sum is zero"


def ask(peer: Peer, options: Options, records: list[Row]) -> Played:
    """Return Jet's rows.

    Its sessions are [first, last + gap), and records exactly a gap apart are in two: it gets a gap that is longer by one.
    """
    longer = {"gap": options["gap"] + 1} if "gap" in options else {}
    ends, finish = len(longer), FINISH[options["aggregate"]]
    answer = peer.play({**options, **longer}, records)
    emitted = [
        [
            [key, start, end - ends, finish(value) if isinstance(value, list) else value]
            for key, start, end, value in rows
        ]
        for rows in answer.emitted
    ]
    return Played(emitted, answer.dropped, empty=True)


def judge(options: Options, records: list[Row], theirs: Played, backend: str) -> Verdict:
    """Play a case on this backend without the records that Jet drops, and compare."""
    verdict = Verdict()
    times = zip(close_times(options, records), records, strict=True)
    kept = [
        number for number, (close, record) in enumerate(times) if close <= _last_watermark(options, record)
    ]
    # A session that ends at the watermark is open in Jet, and here once its last tick is behind the close time.
    later = {"grace": options["grace"] + 1} if options["window"] == "session" else {}
    ours = play({**options, **later}, [records[number] for number in kept], backend)
    if not ours.empty:
        verdict.failures.append("something is stored when all windows have closed")
    emitted: list[list[Row]] = [[] for _ in records]
    for number, rows in zip(kept, ours.emitted, strict=True):
        emitted[number] = rows
    if len(kept) < len(records):
        dropped = len(records) - len(kept)
        verdict.explained[DROPPED] = dropped - len(play(options, records, backend).late)
    deducts = options["aggregate"] == "sum" and options["window"] == "hopping"
    for each in differences(emitted, theirs.emitted):
        if deducts and each.ours == 0 and each.theirs == MISSING:
            verdict.explained[ZERO] += 1
        else:
            verdict.failures.append(each)
    return verdict


def _last_watermark(options: Options, record: Row) -> int:
    """The last watermark with which Jet takes a record: a session's has to be its time, others close its first window."""
    if options["window"] == "session":
        return int(record[1])
    advance = options.get("advance", options["size"])
    return int(record[1] + advance - (record[1] - options["offset"]) % advance - 1)
