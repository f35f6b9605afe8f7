"""Errors of stored bytes. Each message has the way out."""


class SerializationError(ValueError):
    """Bytes or values that this version cannot read or write."""


class CorruptDataError(SerializationError):
    """Stored bytes that are truncated, altered, or not of this library."""


class NewerFormatError(SerializationError):
    """Stored bytes that a newer version of this library wrote."""

    def __init__(self, what: str, found: int, known: int) -> None:
        super().__init__(
            f"{what} has format version {found}; this version reads up to {known}: "
            "upgrade spark-stateful-windows on this machine"
        )
