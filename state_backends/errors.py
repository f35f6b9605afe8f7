"""The error of state that cannot be used."""


class StateError(RuntimeError):
    """State that cannot be opened, read or written. The message says what is wrong and the way out."""
