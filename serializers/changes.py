"""Changelog blobs: the puts, deletes and drops of one micro-batch.

Layout: a blob (see `blobs`) of one of two formats. Whole pages are b"SWCL", with the value
[drop_segments_below or nil, {segment: [keys]} of deletes, {segment: [[keys], [pages]]} of puts].
Where a batch knows what has changed in its pages, it is b"SWED", with the edits of others (see `edits`) behind them:
{segment: [edits]}.
"""

from collections.abc import Mapping, Sequence, Set
from typing import Any

from serializers.blobs import BlobFormat
from serializers.edits import PageEdits
from serializers.shapes import instance, int64, list_of, refusing

CHANGES_VERSION = 1
EDITS_VERSION = 1
_FORMAT = BlobFormat(b"SWCL", CHANGES_VERSION)
_EDITS = BlobFormat(b"SWED", EDITS_VERSION)

Puts = Mapping[int, Mapping[bytes, bytes]]
Deletes = Mapping[int, Set[bytes]]
Edits = Mapping[int, Sequence[PageEdits]]


def encode_changes(puts: Puts, deletes: Deletes, drop_segments_below: int | None) -> bytes:
    """Return the blob of one batch's changes. O(bytes), about 400 MB/s."""
    return _FORMAT.encode(_content(puts, deletes, drop_segments_below))


def _content(puts: Puts, deletes: Deletes, drop_segments_below: int | None) -> list[Any]:
    return [
        drop_segments_below,
        {segment: sorted(keys) for segment, keys in deletes.items()},
        {segment: [list(pages), list(pages.values())] for segment, pages in puts.items()},
    ]


def encode_edits(puts: Puts, edits: Edits, deletes: Deletes, drop_segments_below: int | None) -> bytes:
    """Return the blob of one batch's changes, of which some pages are edits. O(bytes), about 400 MB/s."""
    found = {segment: [some.plain() for some in parts] for segment, parts in edits.items()}
    return _EDITS.encode([*_content(puts, deletes, drop_segments_below), found])


def has_edits(blob: bytes) -> bool:
    """Return whether a blob has edits of pages, for `decode_edits`; otherwise it is for `decode_changes`."""
    return blob[: len(_EDITS.magic)] == _EDITS.magic


def decode_edits(
    blob: bytes,
) -> tuple[dict[int, dict[bytes, bytes]], dict[int, list[PageEdits]], dict[int, set[bytes]], int | None]:
    """Return the puts, edits, deletes and drop of a blob that `encode_edits` wrote.

    Raises:
        CorruptDataError: the blob is truncated, altered, or no changelog blob.
        NewerFormatError: a newer version wrote it.
    """
    *content, edits = _items(_EDITS.decode(blob, "a changelog entry"), 4)
    puts, deletes, drop_segments_below = _changes(content)
    with refusing("a changelog entry"):
        found = {
            int64(segment): list(map(PageEdits.from_plain, instance(list, parts)))
            for segment, parts in instance(dict, edits).items()
        }
    return puts, found, deletes, drop_segments_below


def decode_changes(
    blob: bytes,
) -> tuple[dict[int, dict[bytes, bytes]], dict[int, set[bytes]], int | None]:
    """Return the puts, deletes and drop of a blob that `encode_changes` wrote.

    Raises:
        CorruptDataError: the blob is truncated, altered, or no changelog blob.
        NewerFormatError: a newer version wrote it.
    """
    return _changes(_items(_FORMAT.decode(blob, "a changelog entry"), 3))


def _items(content: Any, count: int) -> list[Any]:
    with refusing("a changelog entry"):
        if len(instance(list, content)) != count:
            raise ValueError(f"{len(content)} items in place of {count}")
    return list(content)


def _changes(content: list[Any]) -> tuple[dict[int, dict[bytes, bytes]], dict[int, set[bytes]], int | None]:
    with refusing("a changelog entry"):
        drop_segments_below, deletes, puts = content
        return (
            {int64(segment): _pages(*pages) for segment, pages in instance(dict, puts).items()},
            {int64(segment): {*list_of(bytes, keys)} for segment, keys in instance(dict, deletes).items()},
            None if drop_segments_below is None else int64(drop_segments_below),
        )


def _pages(keys: Any, pages: Any) -> dict[bytes, bytes]:
    return dict(zip(list_of(bytes, keys), list_of(bytes, pages), strict=True))
