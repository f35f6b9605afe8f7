"""Everything that is read back, as functions of bytes: what each accepts, how to forge it, and what it may raise."""

import hashlib
import random
import shutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from operators.spark.replicas.messages import (
    decode_answer,
    decode_blob,
    decode_functions,
    decode_request,
    encode_blob,
)
from serializers import CorruptDataError, NewerFormatError, decode_keys
from serializers.changes import decode_changes, decode_edits, encode_changes, encode_edits
from serializers.edits import PageEdits, apply_edits, edits_between
from serializers.pages import PageLayout
from serializers.rows import RowCodec
from serializers.values import unpack_value
from state_backends import StateError
from state_backends.backends.memory import MemoryBackend
from state_backends.backends.spark_state import SparkStateBackend
from state_backends.checkpoints.query import stored_query
from state_backends.checkpoints.savepoint import HEADER, read_header
from state_backends.durability.changelog import entries, entry_name
from state_backends.durability.pointer import NO_VERSION, Pointer
from state_backends.durability.request_folder import ForgetRequest, RequestFile, RequestReader
from state_backends.durability.snapshots import Manifest
from state_backends.journal import MemoryJournal
from tests.hostile import published, sketches
from tests.hostile.forge import (
    forge_entry,
    forge_key,
    forge_lines,
    forge_page,
    forge_pointer,
    forge_signed,
    forge_value,
    sealed_blob,
)
from tests.hostile.mutate import Change, mutated, packed
from tests.hostile.seeds import (
    BATCH,
    KEYS,
    LAYOUTS,
    MANIFEST,
    QUERY,
    ROWS,
    VALUE,
    answers,
    entry,
    folder,
    functions,
    keys,
    pages,
    pointer,
    request,
    rows,
    saved_file,
    savepoint,
    slot_name,
    stored,
    stored_journal,
)

DOCUMENTED = (CorruptDataError, NewerFormatError, StateError)


@dataclass(frozen=True)
class Target:
    """A decoder.

    Attributes:
        name: of what it reads.
        seeds: bytes that it accepts.
        read: decodes, and looks at what came out as the library does.
        forge: changes the content of a seed, and makes its checksums right again; None if there are none.
    """

    name: str
    seeds: Callable[[], list[bytes]]
    read: Callable[[bytes], object]
    forge: Change | None = None

    def example(self, rng: random.Random) -> bytes:
        """Return bytes: any, altered ones, or forged ones."""
        seed = rng.choice(self.seeds())
        how = rng.randrange(8)
        if how == 0:
            return rng.randbytes(rng.choice((0, 1, 5, 24, 100, 1_000)))
        if how <= 2 or self.forge is None:
            return mutated(rng, seed)
        return self.forge(rng, seed)


def read_keys(key: bytes) -> object:
    """Read a key with others, so many that they may be read as columns."""
    return [decode_keys([*keys() * times, key], KEYS.types) for times in (1, 40)]


def read_slots(name: str, blob: bytes) -> object:
    """Read all pages of a journal in which one blob is another."""
    journal = MemoryJournal()
    for one in stored_journal()._blobs:
        journal.put(one, stored_journal().get(one) or b"")
    journal.put(name, blob)
    backend = SparkStateBackend.open(Path("/nowhere"), {})
    backend.attach(journal)
    return [dict(backend.iterate(segment)) for segment in backend.segments()]


def read_entry(blob: bytes) -> object:
    """Read a changelog entry, and its changes."""
    journal = MemoryJournal()
    journal.put(entry_name(1), blob)
    last = replace(Pointer.fresh(), number=1, version=(1).to_bytes(8, "big") + b"12345678")
    return [one.changes(MemoryBackend()) for one in entries(journal, 0, NO_VERSION, last)]


def logged() -> list[bytes]:
    """Changelog blobs of batches that have edits of pages."""
    return [
        encode_edits({5: {b"new": pages(one)[0]}}, {3: one_edit(one)}, {3: {b"gone"}}, -1) for one in LAYOUTS
    ]


def one_edit(layout: PageLayout) -> list[PageEdits]:
    """The edits that turn each page into the next one."""
    old = pages(layout)
    return edits_between(layout, [b"%d" % n for n in range(len(old))], old, [*old[1:], old[0]])


def read_logged(blob: bytes) -> object:
    """Read a changelog blob with edits, and edit the pages of one of the layouts."""
    _, edits, _, _ = decode_edits(blob)
    found = []
    for some in edits.get(3, []):
        old = pages(next((one for one in LAYOUTS if one.codes == some.codes), LAYOUTS[0]))
        numbered = {b"%d" % n: page for n, page in enumerate(old)}
        found.append(apply_edits(some, [numbered.get(key) for key in some.keys]))
    return found


def read_savepoint(blob: bytes) -> object:
    """Read a savepoint with this header."""
    place = folder() / "header"
    if not place.exists():
        shutil.copytree(folder() / "savepoint", place)
    (place / HEADER).write_bytes(blob)
    header = read_header(str(place))
    assert all(is_inside(place, saved.name) for saved in header.files)
    return list(header.groups(0, 1))


def is_inside(place: Path, name: str) -> bool:
    """Whether a file of that name is in the folder."""
    return place.resolve() in Path(f"{place}/{name}").resolve().parents


def read_manifest(blob: bytes) -> object:
    """Read a manifest."""
    manifest = Manifest.decode(blob, "here")
    place = Path("/nowhere")
    for part in manifest.parts:
        assert [place, place] == [(place / name).resolve().parent for name in (part.name, part.file)]
    return manifest


def read_pointer(blob: bytes) -> object:
    """Read a pointer, and write it again."""
    found = Pointer.decode(blob)
    assert found == Pointer.decode(found.encode()) or "nan" in repr(found).lower()
    for snapshot in (*found.snapshots, *found.retired):
        assert is_inside(Path("/nowhere"), f"{found.store_id}/{snapshot.name}.json")
    return found


def read_saved(blob: bytes) -> object:
    """Read a savepoint whose file has these bytes, and whose header agrees."""
    (folder() / "file").mkdir(exist_ok=True)
    (folder() / "file" / "entries").write_bytes(blob)
    digest = hashlib.sha256(blob).hexdigest()
    saved = replace(savepoint().files[0], name="entries", size=len(blob), digest=digest)
    return list(replace(savepoint(), uri=str(folder() / "file"), files=(saved,)).groups(0, 1))


def read_query(name: str, blob: bytes) -> object:
    """Read what the files of a checkpoint say, one of which has these bytes."""
    place = folder() / "query"
    for one, content in {**QUERY, name: blob}.items():
        file = place / one if one == "metadata" else place / one / "0"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)
    return stored_query(str(place))


REQUEST = ForgetRequest(RequestFile(1, "0" * 16, "requests/1.json"), "windows", 2, (b"one", b"other"))


def targets() -> list[Target]:
    """Return all decoders."""
    return [
        Target("value", lambda: [VALUE], unpack_value, forge_value),
        *(
            Target(
                f"page {number}",
                lambda one=one: pages(one),
                lambda page, one=one: one.decode([page]),
                forge_page(one),
            )
            for number, one in enumerate(LAYOUTS)
        ),
        Target("key", keys, read_keys, forge_key),
        Target("rows", rows, lambda blob: RowCodec(ROWS).decode([blob])),
        Target(
            "changes",
            lambda: [encode_changes(BATCH.puts, BATCH.deletes, 3)],
            decode_changes,
            sealed_blob(5, ""),
        ),
        Target("edits", logged, read_logged, sealed_blob(5, "")),
        Target("entry", lambda: [entry()], read_entry, forge_entry),
        Target("index", stored("index"), lambda blob: read_slots("index", blob), sealed_blob(5, "index")),
        Target(
            "slot",
            stored(slot_name()),
            lambda blob: read_slots(slot_name(), blob),
            sealed_blob(5, slot_name()),
        ),
        Target(
            "pointer", lambda: [pointer().encode(), Pointer.fresh().encode()], read_pointer, forge_pointer
        ),
        Target("manifest", lambda: [MANIFEST.encode()], read_manifest, forge_signed),
        Target(
            "savepoint header",
            lambda: [(folder() / "savepoint" / HEADER).read_bytes()],
            read_savepoint,
            forge_signed,
        ),
        *(
            Target(
                f"sketch of {name}",
                lambda one=one: sketches.seeds(one),
                lambda sketch, one=one: sketches.read(one, sketch),
                sketches.forge,
            )
            for name, one in (("distinct values", sketches.DISTINCT), ("quantiles", sketches.QUANTILES))
        ),
        *(
            Target(
                f"published {kind}",
                lambda kind=kind: [published.seed(kind)],
                lambda page, kind=kind: published.read(kind, page),
                forge_page(published.layout()) if kind == "pages" else forge_value,
            )
            for kind in published.ROWS
        ),
        Target("savepoint file", saved_file, read_saved, sealed_blob(5, "")),
        Target(
            "request to forget",
            lambda: [REQUEST.encode(), replace(REQUEST, keys=None).encode()],
            lambda blob: ForgetRequest.decode(REQUEST.file, blob, "here"),
            forge_signed,
        ),
        Target(
            "reader of requests",
            lambda: [RequestReader("windows", KEYS, 3).encode()],
            lambda blob: RequestReader.decode(blob, "here"),
            forge_signed,
        ),
        *(
            Target(
                f"query {name}",
                lambda blob=blob: [blob],
                lambda blob, name=name: read_query(name, blob),
                forge_lines,
            )
            for name, blob in QUERY.items()
        ),
        Target("request", lambda: [request()], decode_request, packed),
        Target("answer", answers, lambda blob: decode_answer(blob, pointer().store_id), packed),
        Target("functions", lambda: [functions()], decode_functions, packed),
        Target("blob of a journal", lambda: [encode_blob(b"blob"), encode_blob(None)], decode_blob, packed),
    ]
