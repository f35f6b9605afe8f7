"""How a state is kept: its changelog and its snapshots, bucket by bucket."""

from collections.abc import Iterator

from operators.command.report.markup import Html, details, join, pairs, table
from operators.command.text.formats import NEVER, byte_text, counted, number
from state_backends.checkpoints.survey import StateSurvey, SurveyedBucket
from state_backends.durability.pointer import JOURNAL, POINTER_VERSION, Pointer
from state_backends.uris import shown as shown_folder

_MOST = 50
_NAMES = ("bucket", "version", "log entries", "log size", "snapshot", "its size", "its age", "failures")
_NUMBERS = ("bucket", "version", "log entries", "log size", "its size", "failures")


def keeping(found: StateSurvey) -> Html:
    """Return the part of a section about changelogs and snapshots."""
    shown = sorted(found.buckets, key=lambda bucket: -bucket.log_bytes)[:_MOST]
    caption = "Changelog and newest snapshot of each bucket; sizes of the log are compressed, as stored"
    if len(shown) < len(found.buckets):
        caption = f"The {_MOST} buckets with the largest changelogs, of {number(len(found.buckets))}"
    rows = [_row(bucket) for bucket in sorted(shown, key=lambda bucket: bucket.number)]
    return join([pairs(_facts(found)), details("Bucket by bucket", table(caption, _NAMES, rows, _NUMBERS))])


def _facts(found: StateSurvey) -> Iterator[tuple[str, str]]:
    buckets = found.buckets
    pointers = [bucket.pointer for bucket in buckets]
    yield "pages are in", _home(pointers)
    yield "format", f"version {POINTER_VERSION} of the pointer"
    entries = counted(sum(bucket.log_entries for bucket in buckets), "entry", "entries")
    yield "changelog", f"{entries}, {byte_text(sum(bucket.log_bytes for bucket in buckets))} compressed"
    yield "in Spark's store", byte_text(sum(bucket.stored_bytes for bucket in buckets))
    yield "snapshots", _snapshots(pointers)
    folders = sorted(
        {shown_folder(one.folder) for pointer in pointers for one in pointer.snapshots if one.folder}
    )
    if folders:
        yield "their folder", ", ".join(folders)
    failures = sum(pointer.failures for pointer in pointers)
    if failures:
        yield (
            "failed snapshots",
            f"{number(failures)} since the last complete ones: the workers' logs say why",
        )


def _home(pointers: list[Pointer]) -> str:
    if any(pointer.page_location == JOURNAL for pointer in pointers):
        return "Spark's state store (the backend spark)"
    return "workers' local copies, which the changelog and the snapshots restore"


def _snapshots(pointers: list[Pointer]) -> str:
    with_one = [pointer for pointer in pointers if pointer.snapshots]
    if not with_one:
        return "none"
    size = sum(pointer.newest.size for pointer in with_one)
    ages = [_age(pointer) for pointer in with_one]
    written = sum(len(pointer.snapshots) for pointer in pointers)
    pending = sum(pointer.pending is not None for pointer in pointers)
    return (
        f"{number(written)} in {counted(len(with_one), 'bucket')}; the newest ones hold {byte_text(size)} and are "
        f"{counted(max(ages), 'change')} old at most"
        + (f"; {number(pending)} being written" if pending else "")
    )


def _age(pointer: Pointer) -> int:
    """Batches with changes since the newest snapshot."""
    return pointer.number - pointer.newest.number


def _row(bucket: SurveyedBucket) -> list[str]:
    pointer = bucket.pointer
    snapshot = pointer.newest
    there = bool(pointer.snapshots)
    return [
        str(bucket.number),
        number(pointer.number),
        number(bucket.log_entries),
        byte_text(bucket.log_bytes),
        (snapshot.name or "in Spark's store") if there else NEVER,
        byte_text(snapshot.size) if there else NEVER,
        counted(_age(pointer), "change") if there else NEVER,
        number(pointer.failures),
    ]
