"""What can go wrong with stored bytes, each error with the way out in its message."""


class SerializationError(ValueError):
    """Bytes or values that this version cannot read or write."""


class CorruptDataError(SerializationError):
    """Stored bytes that are truncated, altered, or not ours at all."""


class NewerFormatError(SerializationError):
    """Stored bytes that a newer version of this library wrote."""

    def __init__(self, what: str, found: int, known: int) -> None:
        super().__init__(
            f"{what} has format version {found}; this version reads up to {known}: "
            "upgrade spark-stateful-windows on this machine"
        )
