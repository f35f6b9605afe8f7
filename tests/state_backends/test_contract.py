"""The shipped contract suite on the built-in backends."""

from collections.abc import Mapping
from typing import ClassVar

from state_backends.backends.journaled import JournalBackend
from state_backends.backends.memory import MemoryBackend
from state_backends.backends.rocksdb import RocksDBBackend
from state_backends.contract import BackendContract


class TestMemory(BackendContract):
    """The backend of dictionaries."""

    backend_class = MemoryBackend


class TestJournal(BackendContract):
    """The backend that keeps its pages in a journal, here in one of its own."""

    backend_class = JournalBackend


class TestRocksDB(BackendContract):
    """RocksDB with its defaults."""

    backend_class = RocksDBBackend


class TestSmallRocksDB(BackendContract):
    """RocksDB that flushes and compacts often, with another compression."""

    backend_class = RocksDBBackend
    options: ClassVar[Mapping[str, str]] = {"writeBufferMb": "1", "blockCacheMb": "1", "compression": "zstd"}
