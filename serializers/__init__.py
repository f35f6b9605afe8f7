"""Bytes for keys, pages and changes: versioned, checked, and never unpickled."""

from serializers.errors import CorruptDataError, NewerFormatError, SerializationError
from serializers.keys import decode_keys, encode_keys
from serializers.pages import PageLayout
from serializers.values import pack_value, unpack_value

__all__ = [
    "CorruptDataError",
    "NewerFormatError",
    "PageLayout",
    "SerializationError",
    "decode_keys",
    "encode_keys",
    "pack_value",
    "unpack_value",
]
