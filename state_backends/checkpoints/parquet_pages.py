"""What a forged Parquet file may do to who reads it, looked for in its footer and in the headers of its pages.

Both are structs of Thrift's compact protocol; see https://parquet.apache.org/docs/file-format.
"""

import os
from typing import Any, BinaryIO

from serializers import CorruptDataError

_MOST_HEADER = 64 << 10
"""Bytes of a page's header at most; it has statistics of its values."""
_PAGE_SIZE, _STORED_SIZE = 2, 3
_DATA, _DICTIONARY, _DATA_2 = 5, 7, 8
"""Fields of a page's header: its sizes, and what there is about data, a dictionary, and data of version 2."""
_ENCODING = {_DATA: 2, _DICTIONARY: 2, _DATA_2: 4}
"""The field of the encoding in each of these structs; the first field is the number of values."""
_PLAIN, _OF_DICTIONARY = 0, (2, 8)
_LEAST_VALUE = 4
"""Bytes of a value of any type in a dictionary."""
_ROW_GROUPS, _COLUMNS, _META, _ENCRYPTED, _SIZES = 4, 1, 3, (8, 9), 16
"""Fields of the footer, of a group of rows, of one of its columns (two of them), and of what a column's metadata is."""
_VALUE_BYTES, _REPETITIONS, _DEFINITIONS = 1, 2, 3
"""Fields of a column's sizes: the bytes of its values, and how many have each level of repetition and of definition."""
_TRUE, _FALSE, _BYTE, _DOUBLE, _BINARY, _LIST, _SET, _STRUCT = 1, 2, 3, 7, 8, 9, 10, 12
_INTEGERS = 4, 5, 6
_DEEPEST = 8
_TAIL = 8
"""Bytes of a file after its footer: its length, and the format's mark."""


def decoded_bytes(file: BinaryIO, column: Any) -> int:
    """Return the bytes that the pages of a column have when they are uncompressed.

    Args:
        file: the whole file.
        column: what its footer says of one column in a group of rows, as pyarrow has it.

    Raises:
        CorruptDataError: a header cannot be read, or claims more values than its page has room for.

    Cost: a read for each page.
    """
    at = column.data_page_offset
    if column.has_dictionary_page and column.dictionary_page_offset:
        at = min(at, column.dictionary_page_offset)
    end, size = at + column.total_compressed_size, 0
    while at < end:
        file.seek(at)
        header = _Header(file.read(_MOST_HEADER))
        page, stored = _sizes(header.struct())
        size += page
        at += header.at + stored
    return size


def check_footer(file: BinaryIO, schema: Any) -> None:
    """Look for what ends the process where pyarrow tells of a column: metadata that is encrypted, or does not fit its type.

    Args:
        file: the whole file.
        schema: of its footer, a `pyarrow.parquet.ParquetSchema`.

    Raises:
        CorruptDataError: there is such a column, or the footer cannot be read.

    Cost: about a microsecond for each byte of the footer.
    """
    file.seek(-_TAIL, os.SEEK_END)
    length = int.from_bytes(file.read(4), "little")
    file.seek(-_TAIL - length, os.SEEK_END)
    footer = _Header(file.read(length)).struct()
    for group in _all(footer, _ROW_GROUPS):
        for number, column in enumerate(_all(group, _COLUMNS)):
            _check_column(column, schema.column(number))


def _check_column(fields: dict[int, Any], of: Any) -> None:
    sizes = fields.get(_META, {}).get(_SIZES, {})
    levels = {_REPETITIONS: of.max_repetition_level, _DEFINITIONS: of.max_definition_level}
    if any(len(_all(sizes, counts)) not in (0, level + 1) for counts, level in levels.items()):
        raise CorruptDataError("a column has counts of levels that it does not have")
    if _VALUE_BYTES in sizes and of.physical_type != "BYTE_ARRAY":
        raise CorruptDataError("a column has the bytes of values of another type")
    if any(field in fields for field in _ENCRYPTED):
        raise CorruptDataError("a column is encrypted, which none of a savepoint is")


def _all(fields: dict[int, Any], number: int) -> list[Any]:
    found: list[Any] = fields.get(number, [])
    return found


def _sizes(fields: dict[int, Any]) -> tuple[int, int]:
    """The bytes of a page when it is uncompressed, and as it is stored."""
    page, stored = (fields.get(number, -1) for number in (_PAGE_SIZE, _STORED_SIZE))
    (kind, about), *more = [(kind, fields[kind]) for kind in _ENCODING if kind in fields] or [(0, {})]
    count, encoding = (about.get(number, -1) for number in (1, _ENCODING.get(kind, 0)))
    if more or min(page, stored, count) < 0 or (kind == _DICTIONARY and count * _LEAST_VALUE > page):
        raise CorruptDataError("a page of a column has sizes that it cannot have")
    # Others let few bytes stand for many.
    if encoding != _PLAIN and (kind == _DICTIONARY or encoding not in _OF_DICTIONARY):
        raise CorruptDataError(f"a page of a column has the encoding {encoding}, which no savepoint has")
    return page, stored


class _Header:
    """A struct at the beginning of some bytes.

    Attributes:
        at: how many of the bytes were read.
    """

    def __init__(self, data: bytes) -> None:
        self._data = data
        self.at = 0

    def struct(self, depth: int = 0) -> dict[int, Any]:
        """Read a struct: its fields of integers, structs and lists of these, by number."""
        fields: dict[int, Any] = {}
        number = 0
        while head := self._byte():
            number = number + (head >> 4) if head >> 4 else _zigzag(self._varint())
            value = self._value(head & 15, depth)
            if number in fields:
                raise CorruptDataError("a struct has a field twice")
            if value is not None:
                fields[number] = value
        return fields

    def _value(self, kind: int, depth: int) -> Any:
        """Read a value; None for one that is only passed over."""
        if depth > _DEEPEST:
            raise CorruptDataError("a footer or a page's header is nested too deeply")
        if kind in _INTEGERS:
            return _zigzag(self._varint())
        if kind == _STRUCT:
            return self.struct(depth + 1)
        if kind in (_LIST, _SET):
            head = self._byte()
            kind = _BYTE if head & 15 in (_TRUE, _FALSE) else head & 15
            count = self._varint() if head >> 4 == 15 else head >> 4
            return [self._value(kind, depth + 1) for _ in range(count)]
        if kind == _BINARY:
            length = self._varint()
            self.at += length
        elif kind == _DOUBLE:
            self.at += 8
        elif kind == _BYTE:
            self._byte()
        elif kind not in (_TRUE, _FALSE):
            raise CorruptDataError(f"a footer or a page's header has a field of type {kind}")
        return None

    def _varint(self) -> int:
        value = shift = 0
        while True:
            byte = self._byte()
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value
            if shift > 63:
                raise CorruptDataError("a footer or a page's header has a number of more than 64 bits")

    def _byte(self) -> int:
        if self.at >= len(self._data):
            raise CorruptDataError("a footer or a page's header is incomplete, or very long")
        self.at += 1
        return self._data[self.at - 1]


def _zigzag(value: int) -> int:
    return (value >> 1) ^ -(value & 1)
