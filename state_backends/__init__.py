"""State backends and the timestamped window store over them."""

from state_backends.config import StateConfig, known_options, load_backend, resolve
from state_backends.interface import StateBackend, StateError, WriteBatch
from state_backends.window_store import Entries, WindowStore

__all__ = [
    "Entries",
    "StateBackend",
    "StateConfig",
    "StateError",
    "WindowStore",
    "WriteBatch",
    "known_options",
    "load_backend",
    "resolve",
]
