"""State backends and the timestamped window store over them.

Each name is imported when it is first used: the package itself loads no backend, no Spark and no Arrow.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from state_backends.checkpoints.export import write_savepoint
    from state_backends.checkpoints.reading import read_state, summarize_state
    from state_backends.config import StateConfig, known_options, resolve
    from state_backends.errors import StateError
    from state_backends.interface import StateBackend, WriteBatch
    from state_backends.registry import load_backend
    from state_backends.store.window_store import Entries, WindowStore

_HOMES = {
    "state_backends.checkpoints.export": ("write_savepoint",),
    "state_backends.checkpoints.reading": ("read_state", "summarize_state"),
    "state_backends.config": ("StateConfig", "known_options", "resolve"),
    "state_backends.errors": ("StateError",),
    "state_backends.interface": ("StateBackend", "WriteBatch"),
    "state_backends.registry": ("load_backend",),
    "state_backends.store.window_store": ("Entries", "WindowStore"),
}
_HOME = {name: module for module, names in _HOMES.items() for name in names}

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


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(
            f"module 'state_backends' has no attribute {name!r}; it has {', '.join(__all__)}"
        )
    return getattr(import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
