"""The options of the backend that keeps pages in RocksDB, and what RocksDB is opened with."""

from collections.abc import Mapping

from rocksdict import BlockBasedOptions, Cache, DBCompressionType, Options

KNOWN_OPTIONS = {
    "writeBufferMb": "size of the memtable in MiB (default 64)",
    "blockCacheMb": "size of the cache of uncompressed blocks in MiB (default 64)",
    "compression": "lz4 (default), zstd, snappy or none",
}
_COMPRESSIONS = {
    "lz4": DBCompressionType.lz4,
    "zstd": DBCompressionType.zstd,
    "snappy": DBCompressionType.snappy,
    "none": DBCompressionType.none,
}
_MOST_BOOKKEEPING = 256 << 10
"""Bytes of the list of files, or of the log of what RocksDB does. By default they grow as long as a database is open."""
_MIB = 1 << 20


def rocks_options(options: Mapping[str, str]) -> Options:
    """Return RocksDB's options for this layout.

    Raises:
        ValueError: a value that is no positive whole number, or an unknown compression.
    """
    compression = options.get("compression", "lz4")
    if compression not in _COMPRESSIONS:
        raise ValueError(
            f"rocksdb.compression is {compression!r}: it must be one of {', '.join(_COMPRESSIONS)}"
        )
    table = BlockBasedOptions()
    table.set_block_cache(Cache(_mebibytes(options, "blockCacheMb")))
    table.set_bloom_filter(10, False)
    rocks = Options(raw_mode=True)
    rocks.create_if_missing(True)
    rocks.set_write_buffer_size(_mebibytes(options, "writeBufferMb"))
    rocks.set_compression_type(_COMPRESSIONS[compression]())
    rocks.set_block_based_table_factory(table)
    rocks.set_keep_log_file_num(2)
    rocks.set_max_log_file_size(_MOST_BOOKKEEPING)
    rocks.set_max_manifest_file_size(_MOST_BOOKKEEPING)
    rocks.set_max_open_files(256)
    return rocks


def _mebibytes(options: Mapping[str, str], name: str) -> int:
    text = options.get(name, "64")
    if not text.isdecimal() or int(text) < 1:
        raise ValueError(f"rocksdb.{name} is {text!r}: it must be a whole number of MiB, at least 1")
    return int(text) * _MIB
