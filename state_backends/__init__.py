"""State backends and the timestamped window store over them."""

from state_backends.checkpoints.export import write_savepoint
from state_backends.checkpoints.reading import read_state, summarize_state
from state_backends.config import StateConfig, known_options, load_backend, resolve
from state_backends.interface import StateBackend, StateError, WriteBatch
from state_backends.store.window_store import Entries, WindowStore

__all__ = [
    "Entries",
    "StateBackend",
    "StateConfig",
    "StateError",
    "WindowStore",
    "WriteBatch",
    "known_options",
    "load_backend",
    "read_state",
    "resolve",
    "summarize_state",
    "write_savepoint",
]
