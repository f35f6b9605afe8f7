"""Bugs for the sources of backends, each with the test of the contract suite that finds it."""

from dataclasses import dataclass

SOURCES = {
    "memory": ("state_backends/backends/memory.py", "MemoryBackend"),
    "rocksdb": ("state_backends/backends/rocksdb.py", "RocksDBBackend"),
    "spark": ("state_backends/backends/spark_state.py", "SparkStateBackend"),
    "sqlite": ("examples/sqlite_backend/windows_sqlite.py", "SqliteBackend"),
}
KILLED, FAILED, FULL = "killed_at_any_line", "error_at_any_line", "full_disk"
HALF = "failed_write_changes_nothing"
OPTIONS, BESIDE = "bad_options_are_refused", "nothing_beside_the_directory"
SET_VERSION = "            self._set_meta(_VERSION, version)"
SQLITE_WRITE = '        with self._translated_errors("write"), self._db:\n'
NEW_BATCH = "\n        self._apply(changes)\n        changes = RocksWriteBatch(raw_mode=True)"
PUT_INDEX = '        self._journal.put("index", '
REMOVE_INDEX = '        self._journal.remove("index")'
LATE_DELETES = """        self._version = version
        for segment, keys in deletes:
            for key in keys:
                self._segments.get(segment, {}).pop(key, None)
"""
REMOVE = """        for file in (*self._directory.glob("*.log"), self._directory / "CURRENT"):
            file.unlink(missing_ok=True)
"""


@dataclass(frozen=True)
class Bug:
    """A bug in one of the sources, and the test of the suite that finds it, with its parameter."""

    backend: str
    what: str
    old: str
    new: str
    test: str
    parameter: str = ""

    @property
    def name(self) -> str:
        return f"{self.backend}: {self.what}"


SEVEN = [
    Bug(
        "sqlite",
        "version after the pages",
        SET_VERSION,
        f"        with self._db:\n{SET_VERSION}",
        KILLED,
    ),
    Bug(
        "sqlite",
        "version before the pages",
        SQLITE_WRITE,
        f"        with self._db:\n{SET_VERSION}\n{SQLITE_WRITE}",
        KILLED,
    ),
    Bug(
        "sqlite",
        "drop of its own",
        '"DELETE FROM pages WHERE segment < ?", (batch.drop_segments_below,))',
        '"DELETE FROM pages WHERE segment < ?", (batch.drop_segments_below,))\n                self._db.commit()',
        KILLED,
    ),
    Bug(
        "sqlite",
        "clear with the version last",
        'execute("DELETE FROM pages")',
        'execute("DELETE FROM pages")\n            self._db.commit()',
        KILLED,
    ),
    Bug(
        "sqlite",
        "half of a write is kept",
        SQLITE_WRITE,
        '        with self._translated_errors("write"):\n',
        HALF,
        "pages end",
    ),
    Bug(
        "sqlite",
        "options are not checked",
        "        _parsed(options)\n\n",
        "        del options\n\n",
        OPTIONS,
    ),
    Bug("sqlite", "file beside", 'directory / "pages.db"', 'directory.with_suffix(".db")', BESIDE),
    Bug(
        "rocksdb",
        "version after the pages",
        "        changes.put(_VERSION_KEY, version)",
        f"        {NEW_BATCH.strip()}\n        changes.put(_VERSION_KEY, version)",
        FAILED,
    ),
    Bug(
        "rocksdb",
        "version before the pages",
        "        segments = set(self._segments)\n",
        f"        changes.put(_VERSION_KEY, version){NEW_BATCH}\n        segments = set(self._segments)\n",
        FAILED,
    ),
    Bug(
        "rocksdb",
        "drop of its own",
        "changes.delete_range(_PAGES, segment_prefix(batch.drop_segments_below))",
        f"changes.delete_range(_PAGES, segment_prefix(batch.drop_segments_below)){NEW_BATCH}".replace(
            "\n", "\n    "
        ),
        FAILED,
    ),
    Bug(
        "rocksdb",
        "clear with the version last",
        "        changes.delete(_VERSION_KEY)",
        f"        {NEW_BATCH.strip()}\n        changes.delete(_VERSION_KEY)",
        FAILED,
    ),
    Bug(
        "rocksdb",
        "half of a write is kept",
        "deque(map(changes.put, names,",
        "deque(map(lambda *page: self._db.put(*page, self._write_options), names,",
        HALF,
        "pages end",
    ),
    Bug(
        "rocksdb",
        "options are not checked",
        "        rocks_options(options)\n\n    def",
        "        del options\n\n    def",
        OPTIONS,
    ),
    Bug(
        "rocksdb",
        "files beside",
        "self._directory = directory",
        'self._directory = directory.with_suffix(".db")',
        BESIDE,
    ),
    Bug("spark", "version after the pages", PUT_INDEX, f"        self._commit_file()\n{PUT_INDEX}", KILLED),
    Bug(
        "spark",
        "drop of its own",
        "                    self._remove_slots(segment, part)\n        for segment in sorted(",
        "                    self._remove_slots(segment, part)\n                self._commit_file()\n"
        "        for segment in sorted(",
        KILLED,
    ),
    Bug(
        "spark",
        "clear with the version last",
        REMOVE_INDEX,
        f"        self._commit_file()\n{REMOVE_INDEX}",
        KILLED,
    ),
    Bug(
        "spark",
        "half of a write is kept",
        "self._file_journal.rollback()",
        "self._file_journal.commit()",
        HALF,
        "pages end",
    ),
    Bug("spark", "file beside", 'directory / "pages"', 'directory.with_name("pages")', BESIDE),
    Bug(
        "memory",
        "half of a write is kept",
        "puts = [(segment, dict(pages)) for segment, pages in batch.puts.items()]",
        "puts = batch.puts.items()",
        HALF,
        "pages end",
    ),
    Bug(
        "memory",
        "half of the deletes is kept",
        "deletes = [(segment, list(keys)) for segment, keys in batch.deletes.items()]",
        "deletes = list(batch.deletes.items())",
        HALF,
        "keys end",
    ),
]
"""The bugs that an author found to go through an earlier form of the suite, in each backend that can have them."""

OTHERS = [
    Bug(
        "rocksdb",
        "a walk that ends at a bad block as at the end",
        '            left = self._next_name(begin if last is None else last + b"\\0")\n',
        "            left = None\n",
        "no_read_ends_early",
    ),
    Bug(
        "rocksdb",
        "a purge that leaves the marks of deleted keys",
        "            self._db.compact_range(None, None, options)\n",
        "            self._db.compact_range(None, None)\n",
        "a_purge_removes_the_bytes_of_what_is_gone",
    ),
    Bug(
        "rocksdb",
        "a purge that leaves the list of files",
        "        self._act(compact)\n        self.close()\n        self._open()\n",
        "        self._act(compact)\n",
        "a_purge_removes_the_bytes_of_what_is_gone",
    ),
    Bug("rocksdb", "a killed restore leaves what does not open", REMOVE, "", KILLED),
    Bug(
        "rocksdb",
        "dropped segments are listed",
        "if number >= batch.drop_segments_below}",
        "if number >= batch.drop_segments_below - 1}",
        "drop_before_keeps_its_own_segment",
    ),
    Bug(
        "rocksdb",
        "clear keeps the version",
        "        changes.delete(_VERSION_KEY)\n",
        "",
        "clear_holds_after_reopening",
    ),
    Bug(
        "rocksdb",
        "order of unsigned numbers",
        "segment + _SIGN",
        "segment % (2 * _SIGN)",
        "segments_of_any_number",
    ),
    Bug(
        "rocksdb",
        "pages of neighbours",
        "before(items(from_key=begin), end, stopped)",
        "before(items(from_key=begin), _PAGES_END, stopped)",
        "iterate_yields_one_segment",
    ),
    Bug(
        "rocksdb",
        "keys of neighbours",
        "key_chunks(self._walk(self._db.keys, segment))",
        "key_chunks(before(self._db.keys(from_key=segment_prefix(segment)), _PAGES_END, print))",
        "drop_before_keeps_its_own_segment",
    ),
    Bug(
        "rocksdb",
        "an iterator holds the database",
        "            walk.close()",
        "            pass",
        "iterators_may_be_left_unfinished",
    ),
    Bug("rocksdb", "pages in another order", "found[order] = ", "found[:] = ", "get_many_of_many_keys"),
    Bug(
        "rocksdb",
        "another error of a snapshot",
        'raise _error_of(error)(f"RocksDB cannot write a snapshot',
        'raise KeyError(f"RocksDB cannot write a snapshot',
        "failed_snapshot_changes_nothing",
    ),
    Bug(
        "rocksdb",
        "a snapshot without a check of its tables",
        "            if damaged := sorted(",
        "            if False and sorted(",
        "damaged_files_are_not_stored",
    ),
    Bug(
        "rocksdb",
        "a snapshot without a check of its list",
        "            self._check_list(directory)\n",
        "",
        "damaged_files_are_not_stored",
    ),
    Bug(
        "rocksdb",
        "a restore in place",
        "directory.replace(self._directory)",
        "shutil.copytree(directory, self._directory)",
        FULL,
    ),
    Bug(
        "sqlite",
        "drop of one segment too many",
        "WHERE segment < ?",
        "WHERE segment <= ?",
        "drop_before_keeps_its_own_segment",
    ),
    Bug(
        "sqlite",
        "the first page stays",
        "                rows = ((segment,",
        "                pages = {**pages, **dict(self.iterate(segment))}\n                rows = ((segment,",
        "last_put_counts",
    ),
    Bug(
        "sqlite",
        "deletes in every segment",
        "DELETE FROM pages WHERE segment = ? AND key = ?",
        "DELETE FROM pages WHERE ? IS NOT NULL AND key = ?",
        "keys_of_any_bytes",
    ),
    Bug(
        "sqlite",
        "drop of so many pages",
        "pages WHERE segment < ?",
        "pages WHERE (segment, key) IN (SELECT segment, key FROM pages WHERE segment < ? LIMIT 9999)",
        "many_pages",
    ),
    Bug(
        "sqlite",
        "long keys are cut",
        "rows = ((segment, key, page, _check(segment, key, page))",
        "rows = ((segment, key[:19_000], page, _check(segment, key[:19_000], page))",
        "keys_of_any_length",
    ),
    Bug(
        "sqlite",
        "a whole segment at once",
        "while some := pages.fetchmany(4):",
        "while some := pages.fetchall():",
        "little_memory_is_needed",
    ),
    Bug(
        "sqlite",
        "errors that are not its own",
        "except (sqlite3.Error, OSError) as error:",
        "except OSError as error:",
        "damaged_files_are_refused",
        "garbage",
    ),
    Bug(
        "sqlite",
        "temporary file left",
        "        self._file = directory",
        '        __import__("tempfile").mkstemp()\n        self._file = directory',
        BESIDE,
    ),
    Bug(
        "sqlite",
        "bad pages are left out",
        '                self._db.executemany("INSERT INTO pages VALUES (?, ?, ?, ?)", rows)\n',
        '                try:\n                    self._db.executemany("INSERT INTO pages VALUES (?, ?, ?, ?)", rows)\n'
        "                except (TypeError, sqlite3.Error):\n                    return\n",
        HALF,
        "a page of something else",
    ),
    Bug(
        "sqlite",
        "one thread only",
        "check_same_thread=False",
        "check_same_thread=True",
        "another_thread_may_go_on",
    ),
    Bug(
        "sqlite",
        "pages are not counted",
        "        if count != expected:\n",
        "        if False:\n",
        "no_read_ends_early",
    ),
    Bug(
        "sqlite",
        "pages of all segments",
        "SELECT key, page, crc FROM pages WHERE segment = ? ORDER",
        "SELECT key, page, crc FROM pages WHERE ? IS NOT NULL ORDER",
        "iterate_yields_one_segment",
    ),
    Bug(
        "sqlite",
        "clear keeps the version",
        '            self._db.execute("DELETE FROM meta")\n',
        "",
        "clear_drops_all",
    ),
    Bug(
        "spark",
        "slots of a failed write",
        "            self._index = None\n            self._hashes = {}\n\n    def _apply",
        "            pass\n\n    def _apply",
        HALF,
        "pages end",
    ),
    Bug(
        "spark",
        "empty segments",
        "            if not info.is_empty:\n                index",
        "            if True:\n                index",
        "segments_without_pages_are_not_there",
    ),
    Bug(
        "spark",
        "uncommitted clear",
        "        self._index, self._hashes = None, {}\n        self._commit_file()",
        "        self._index, self._hashes = None, {}",
        "clear_holds_after_reopening",
    ),
    Bug(
        "memory",
        "deletes after puts",
        "        self._version = version\n",
        LATE_DELETES,
        "drops_come_before_deletes_before_puts",
    ),
    Bug(
        "memory",
        "pages are shared with the batch",
        "self._segments.setdefault(segment, {}).update(pages)",
        "self._segments[segment] = pages",
        "random_writes",
    ),
    Bug(
        "memory",
        "order of segments",
        "return sorted(self._segments)",
        "return list(self._segments)",
        "segments_are_ascending",
    ),
]
"""Bugs of other kinds, a part of those that every form of the suite has found."""
