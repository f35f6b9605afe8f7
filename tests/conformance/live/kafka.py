"""Kafka Streams' rows in the form of the cases, and where they differ from ours on purpose."""

import math
from bisect import insort
from typing import Any

from tests.conformance.live.cases import close_times
from tests.conformance.live.peers import Peer
from tests.conformance.live.verdict import Difference, Verdict, differences
from tests.conformance.play import FINISH, Options, Played, Row, play, play_by_brute_force

PARTLY_LATE = "rows of sliding windows with partly late records"
BEFORE_EPOCH = "rows of windows that begin before the epoch"
CLOSED_SESSIONS = "rows of sessions that took a record after they had closed"


def ask(peer: Peer, options: Options, records: list[Row]) -> Played:
    """Return Kafka's rows. Sessions end as ours, and a window comes out once for each record.

    Kafka writes some windows twice: a sliding one if it is the right window of a record and the left one of another, and a
    tombstone for a session that the same record writes again. A record is late if any of its windows was closed.
    """
    answer = peer.play(options, records)
    finish, gap = FINISH[options["aggregate"]], options.get("gap", 0)
    emitted = []
    for rows in answer.emitted:
        last: dict[tuple[str, int, int], Any] = {}
        for key, start, end, values in rows:
            if values is not None or (key, start, end) not in last:
                last[key, start, end] = values
        emitted.append(
            [
                [key, start, end + gap, None if values is None else finish(values)]
                for (key, start, end), values in last.items()
            ]
        )
    return Played(emitted, answer.dropped, empty=True)


def judge(options: Options, records: list[Row], theirs: Played, backend: str) -> Verdict:
    """Play a case on this backend, and compare."""
    return compared(options, records, play(options, records, backend), theirs)


def compared(options: Options, records: list[Row], ours: Played, theirs: Played) -> Verdict:
    """Compare. Where Kafka's rows are others for a known reason, ours have to be those of the brute-force evaluator."""
    verdict = Verdict()
    found = differences(ours.emitted, theirs.emitted)
    if found or ours.late != theirs.late:
        expected = play_by_brute_force(options, records)
        verdict.failures += differences(ours.emitted, expected.emitted)
        if ours.late != expected.late:
            verdict.failures.append(f"late records: ours {ours.late}, by brute force {expected.late}")
    if not ours.empty:
        verdict.failures.append("something is stored when all windows have closed")
    if options["window"] == "session" and (found or ours.late != theirs.late):
        # An exact rule: what Kafka emits is what this model does.
        verdict.explained[CLOSED_SESSIONS] = max(1, len(found))
        ours = play_sessions(options, records)
        found = differences(ours.emitted, theirs.emitted)
    times = zip(close_times(options, records), records, strict=True)
    partly = {number for number, (close, record) in enumerate(times) if record[1] < close}
    near = [(number, records[number]) for number in partly if options["window"] == "sliding"]
    for each in found:
        if _begins_before_epoch(options, each):
            verdict.explained[BEFORE_EPOCH] += 1
        elif any(number <= each.record and _reaches(record, each, options) for number, record in near):
            verdict.explained[PARTLY_LATE] += 1
        else:
            verdict.failures.append(each)
    said = {*theirs.late}
    if not {*ours.late} <= said <= {*ours.late} | partly:
        verdict.failures.append(f"late records: ours {ours.late}, theirs {theirs.late}")
    return verdict


def _begins_before_epoch(options: Options, each: Difference) -> bool:
    """Whether the window begins before the epoch, or is the one that Kafka has in place of all those."""
    start = each.window[1]
    return start < 0 or (options["window"] == "sliding" and start == 0)


def _reaches(record: Row, each: Difference, options: Options) -> bool:
    """Whether a partly late record can have changed this window.

    Kafka makes a window from the aggregates of stored ones that overlap it. The closed window of this record is never stored.
    """
    key, start, end = each.window
    return key == record[0] and start - options["size"] - 1 <= record[1] <= end


def play_sessions(options: Options, records: list[Row]) -> Played:
    """Return what comes of a case if sessions take records for ever, and come out whenever they close."""
    gap, finish = options["gap"], FINISH[options["aggregate"]]
    sessions: dict[str, list[_Session]] = {}
    emitted: list[list[Row]] = []
    late, before = [], -math.inf
    times = zip(close_times(options, records), records, strict=True)
    for number, (close, (key, time, value)) in enumerate(times):
        own = sessions.setdefault(key, [])
        joined = [each for each in own if each[0] - gap <= time <= each[1] + gap]
        first, last = min([time, *(each[0] for each in joined)]), max([time, *(each[1] for each in joined)])
        rows: list[Row] = []
        if last + gap < close:
            late.append(number)
        else:
            sessions[key] = [each for each in own if each not in joined]
            values = [value, *(one for each in joined for one in each[2])]
            insort(sessions[key], (first, last, values))
            if options["emit"] == "on_update":
                gone = {each[:2] for each in joined} - {(first, last)}
                rows += [[key, start, end + gap, None] for start, end in gone]
                rows.append([key, first, last + gap, finish(values)])
        if options["emit"] == "on_close":
            rows += [
                [each_key, start, end + gap, finish(values)]
                for each_key, each in sessions.items()
                for start, end, values in each
                if before <= end + gap < close
            ]
            before = close
        emitted.append(rows)
    return Played(emitted, late, empty=True)


_Session = tuple[int, int, list[Any]]
"""First and last event time, and values."""
