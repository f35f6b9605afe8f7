"""`windows savepoint`: a copy of the state for a new query."""

from argparse import Namespace

from operators.command.inputs import checkpoint_of, reading
from operators.command.progress import watched
from operators.command.text.formats import NEVER, counted, json_text, moment, printable
from operators.command.text.output import say
from state_backends import write_savepoint
from state_backends.checkpoints.savepoint import Savepoint, check_new
from state_backends.durability.folders import Folder, absolute


def run(args: Namespace) -> None:
    """Write a savepoint, and print where it is and from where a new query has to read."""
    found = checkpoint_of(args)
    check_new(Folder(absolute(args.folder)))
    with (
        reading(args) as spark,
        watched(spark, "writing", always=args.progress),
    ):
        saved = write_savepoint(
            found.path,
            args.folder,
            found.backend,
            found.batch,
            operator=found.operator,
            snapshots=found.snapshots,
            spark=spark,
        )
    say(json_text(_describe(saved)) if args.json else _text(saved))


_OF_FILES = (
    "a logOffset counts the lists of files in {0}/sources: files have no offsets to begin at, so give the new query a folder "
    "without the files that are listed there"
)


def _describe(saved: Savepoint) -> dict[str, object]:
    return {
        "savepoint": saved.uri,
        "entries": sum(file.rows for file in saved.files),
        "files": len(saved.files),
        "origin": saved.origin,
    }


def _text(saved: Savepoint) -> str:
    entries = counted(sum(file.rows for file in saved.files), "entry", "entries")
    watermark = moment((saved.origin["watermark in ms"] or 0) * 1_000)
    lines = [
        f"{entries} in {counted(len(saved.files), 'file')} in {printable(saved.uri)}",
        f"the state after batch {saved.origin['batch']}, watermark {watermark or NEVER}",
        "a new query starts from it by the option state.savepoint, and has to read its sources from these offsets:",
        *(f"  {json_text(source)}" for source in saved.origin["sources"]),
    ]
    if any(isinstance(source, dict) and "logOffset" in source for source in saved.origin["sources"]):
        lines.append(_OF_FILES.format(printable(str(saved.origin["checkpoint"]))))
    return "\n".join(lines)
