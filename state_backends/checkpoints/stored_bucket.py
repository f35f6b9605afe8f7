"""One bucket's state, opened from its journal alone."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import chain, islice
from typing import Any, TypeVar, cast

import numpy as np
import numpy.typing as npt

from serializers.pages import Column
from state_backends.checkpoints.forms import sources
from state_backends.durability.pointer import Pointer
from state_backends.errors import StateError
from state_backends.interface import StateBackend
from state_backends.store.ordering import row_order
from state_backends.store.page_ids import FURTHER, distinct_keys, key_of, keys_of
from state_backends.store.schema import StoredSchema

_PAGES_AT_ONCE, _PAGES_READ = 20_000, 1_000
RESIDENT = "spark"
Item = TypeVar("Item")


@dataclass(frozen=True, slots=True)
class EntryBatch:
    """Entries of some keys in one segment. A key with several pages may be in several batches.

    Attributes:
        segment: its number.
        keys: distinct keys, encoded.
        key: shape (n,), int64: positions in `keys`, ascending.
        columns: one of length n for each of the layout; the entries of a key are sorted by time.
        sizes: the sizes of each key: the bytes of its pages here and of their names.
        again: how many of the keys were in an earlier batch of the segment.
    """

    segment: int
    keys: list[bytes]
    key: npt.NDArray[np.int64]
    columns: list[Column]
    sizes: list[int]
    again: int = 0

    @property
    def size(self) -> int:
        """Bytes of keys and pages."""
        return sum(self.sizes)


@dataclass(frozen=True)
class Bucket:
    """A bucket's state at one version, opened.

    Attributes:
        pointer: the pointer of the version.
        schema: the schema of the entries.
        backend: the backend that has the pages.
    """

    pointer: Pointer
    schema: StoredSchema
    backend: StateBackend

    @property
    def close_time(self) -> int:
        """The close time reached, in ticks."""
        return self.pointer.progress.close_time

    @property
    def identity(self) -> dict[str, Any]:
        """What the state depends on."""
        return self.pointer.progress.identity or {}

    def entries(self, form: StoredSchema | None = None) -> Iterator[EntryBatch]:
        """Yield all entries, a number of pages at a time. O(entries).

        Args:
            form: the columns that they get, as `common_form` returns them; by default those that the bucket has.

        Raises:
            StateError: the bucket's entries cannot be brought into the form: the query has gone on since it was found.
        """
        columns = self._sources(form)
        for stored in self._entries():
            if columns is not None:
                stored = replace(stored, columns=[stored.columns[number] for number in columns])  # noqa: PLW2901
            yield stored

    def pages(self, form: StoredSchema | None = None) -> Iterator[tuple[bytes, bytes]]:
        """Yield the key of each page, and the page. Each was decoded: none is damaged. O(entries).

        Args:
            form: as for `entries`.

        Raises:
            StateError: as for `entries`.
        """
        columns = self._sources(form)
        for segment in self.backend.segments():
            for stored in _in_batches(self.backend.iterate(segment), _PAGES_READ):
                names, pages = map(list, zip(*stored, strict=True))
                decoded, counts = self.schema.layout.decode(pages)
                if form is not None and columns is not None:
                    pages = form.layout.encode([decoded[number] for number in columns], counts)
                yield from zip(keys_of(names), pages, strict=True)

    def _sources(self, form: StoredSchema | None) -> list[int] | None:
        """Which columns the entries have in a form; None without one."""
        columns = None if form is None else sources(form, self.schema)
        if form is not None and columns is None:
            raise StateError("a bucket has states with other columns than before: stop the query first")
        return columns

    def _entries(self) -> Iterator[EntryBatch]:
        for segment in self.backend.segments():
            names = self._names(segment) if self.pointer.progress.has_further_pages else []
            seen = _Seen({key_of(name) for name in names if name[:1] == FURTHER})
            stored = self.backend.iterate(segment) if not names else self._pages(segment, names)
            for pages in _in_batches(stored, _PAGES_AT_ONCE):
                yield self._decode(segment, dict(pages), seen)

    def _names(self, segment: int) -> list[bytes]:
        """The names of a segment's pages, those of one key in order of time."""
        names = chain.from_iterable(self.backend.scan_keys(segment))
        return sorted(names, key=lambda name: (name[:1] == FURTHER, name))

    def _pages(self, segment: int, names: list[bytes]) -> Iterator[tuple[bytes, bytes]]:
        for some in _in_batches(names, _PAGES_READ):
            pages = cast("list[bytes]", self.backend.get_many(segment, some))
            yield from zip(some, pages, strict=True)

    def _decode(self, segment: int, pages: dict[bytes, bytes], seen: "_Seen") -> EntryBatch:
        columns, counts = self.schema.layout.decode(list(pages.values()))
        keys, number = distinct_keys(list(pages))
        key, sizes = np.repeat(number, counts), [0] * len(keys)
        for n, name, page in zip(number.tolist(), pages, pages.values(), strict=True):
            sizes[n] += len(name) + len(page)
        order = row_order(key, columns[0])
        if order is not None:
            key, columns = key[order], [column[order] for column in columns]
        return EntryBatch(segment, keys, key, columns, sizes, seen.again(keys))


def _in_batches(items: Iterable[Item], most: int) -> Iterator[list[Item]]:
    """Yield items in lists of so many at most."""
    rest = iter(items)
    while some := list(islice(rest, most)):
        yield some


class _Seen:
    """Which of the keys that may be in several batches were in one already."""

    def __init__(self, several: set[bytes]) -> None:
        self._several = several
        self._seen: set[bytes] = set()

    def again(self, keys: list[bytes]) -> int:
        """Return how many of the keys were given before."""
        if not self._several:
            return 0
        here = self._several.intersection(keys)
        again = len(here & self._seen)
        self._seen |= here
        return again
