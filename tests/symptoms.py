"""What a user would say of each planted bug, and the row of "Where to look" in How it works that a maintainer goes by."""

from typing import NamedTuple


class Symptom(NamedTuple):
    """What somebody sees of a bug.

    Attributes:
        said: in a user's words.
        row: the first cell of the row that names the file, among those of "Where to look".
    """

    said: str
    row: str


_VALUE = "a value is wrong, the window is right"
_BOUNDS = "a window has a record too many, or lacks one"
_LATE = "a record is late, or is not"
_GONE = "state grows, or is gone too early"
_TIMERS = "a window comes too early, too late, twice or never"
_RESTART = "wrong after a restart, right without"
_SESSIONS = "sessions: retractions, cuts"
_ROLLING = "rolling rows: their order, when they come, results over all records of a key (lifetimes)"
_USERS = "only folds, or users' functions, are wrong"
_CHAINS = "chains: windows that never close, rows that are late"
_SPARK = "wrong on Spark, right with a local runner"
_PAGES = "a page is refused, or its bytes are wrong"

SYMPTOMS = {
    "the lower bound of sliding windows": Symptom(
        "A sliding window of 10 s lacks the record that is exactly 10 s before its end.", _BOUNDS
    ),
    "the upper bound of hopping windows": Symptom(
        "The last record of a hopping window is not in it, if it lies in the window's last pane.", _BOUNDS
    ),
    "lateness": Symptom("A record that comes at the very end of its grace is dropped as late.", _LATE),
    "how long panes of sliding windows are kept": Symptom(
        "A sliding window that begins just after a record lacks other records, now and then.", _GONE
    ),
    "expiry of segments": Symptom(
        "Sums of long windows become too small after some hours of a stream.", _GONE
    ),
    "sessions whose distance is the gap": Symptom(
        "Two records that are exactly a gap apart end up in two sessions.", _SESSIONS
    ),
    "retraction of sessions that were merged": Symptom(
        "After two sessions became one, the table still has the older one.", _SESSIONS
    ),
    "deletes when the changelog is replayed": Symptom(
        "After a restart, sessions that had ended long ago come out again.", _RESTART
    ),
    "which entries of the changelog are kept": Symptom(
        "The query does not start again: an entry of the changelog is missing.",
        "a snapshot is missing, late, or not removed",
    ),
    "which snapshots are kept": Symptom(
        "With a damaged newest snapshot, the state cannot be restored, though an older one should be there.",
        "a snapshot is missing, late, or not removed",
    ),
    "checksums of pages": Symptom(
        "A page in which two numbers changed places is read without an error.", _PAGES
    ),
    "pages that are written by columns": Symptom(
        "Pages with exactly 128 entries of one time have other bytes than the documentation says.", _PAGES
    ),
    "timers at the time of a record": Symptom(
        "A custom operator sees a record before the timer that was set to the same time.",
        "a custom operator: order of records and timers",
    ),
    "deduct of users' aggregates": Symptom(
        "An aggregate of my own with a deduct function is wrong as soon as records leave a window.", _USERS
    ),
    "partial aggregation: panes of several tasks": Symptom(
        "On Spark with several input partitions, counts are too small.", _SPARK
    ),
    "partial aggregation by Spark: panes before the epoch": Symptom(
        "Batch only: records of before 1970 are in the wrong hopping window.", _SPARK
    ),
    "sides of cogrouped frames": Symptom(
        "With two frames, a count of the first one counts rows of the second one as well.", _VALUE
    ),
    "the watermark of chains": Symptom(
        "The second of two operators in a query drops rows of the first one as late.", _CHAINS
    ),
    "the close time of a watermark": Symptom(
        "Each window comes out one millisecond of event time too late.", _LATE
    ),
    "the order of waiting rows": Symptom(
        "Rows that wait for the watermark come out in another order than by time.", _ROLLING
    ),
    "keys of floating point": Symptom(
        "The key -0.0 and the key 0.0 are two groups.", "two keys that should be one, or the reverse"
    ),
    "the copy of a state that an error left half done": Symptom(
        "After a batch that failed and ran again in the same process, windows are missing.", _RESTART
    ),
    "combination of ranges of three panes": Symptom(
        "A collect_list has the right elements in the wrong order, in windows of three panes.", _VALUE
    ),
    "which ends belong to rolling windows": Symptom(
        "A rolling window that is closed on the left has a record too many.", _BOUNDS
    ),
    "the timers of waiting rows": Symptom("The last row of a key never comes out.", _ROLLING),
    "which panes go into a lifetime": Symptom(
        "An aggregate over all records of a key counts some of them twice, or not at all.", _ROLLING
    ),
    "sums of pages that were written": Symptom(
        "A large window has an old value after a record of its middle came.", _VALUE
    ),
    "timers of pages that came by a cut": Symptom(
        "For a key with very many records, some windows never come out.", _TIMERS
    ),
    "equal times, which stay in one page": Symptom(
        "With many records of one time, a key has two entries where there should be one.", _GONE
    ),
    "pages of changes that were dropped": Symptom(
        "After a batch that failed and ran again, a page is looked for that does not exist.", _GONE
    ),
    "keys all of whose pages are summed": Symptom(
        "A rolling sum over a day of a busy key has a gap: records of some minutes are left out.", _VALUE
    ),
    "pages that a rolling window without its start contains as a whole": Symptom(
        "A rolling window that is open at its start contains the record at its start.", _BOUNDS
    ),
    "which packed sum is of which page": Symptom("Two busy keys have each other's sums.", _VALUE),
    "which row of a key is its last in a table": Symptom(
        "A table keeps a window that was retracted in the same batch.", "the rows of a table"
    ),
    "the watermark of several inputs": Symptom(
        "With two input streams, windows close before the slower one has come so far.", _LATE
    ),
    "what the clock leaves open in quiet streams": Symptom(
        "With idle shorter than grace, records within grace are late after a quiet time.", _LATE
    ),
    "which files of a savepoint a bucket reads": Symptom(
        "After a move to more buckets by a savepoint, keys are gone.", "savepoints, `read_state`"
    ),
    "NaN among top values": Symptom("top_n puts NaN last, though it is the largest value.", _VALUE),
    "retractions of forgotten keys whose windows come out anew": Symptom(
        "A forgotten key has a new record in the same batch, and its window comes out twice, once retracted.",
        _TIMERS,
    ),
    "estimates of distinct values in long windows": Symptom(
        "approx_count_distinct is right in short windows, and far too small in long ones.", _VALUE
    ),
}
