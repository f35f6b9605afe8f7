"""State backends and the timestamped window store over them.

Each name is imported when it is first used: the package itself loads no backend, no Spark and no Arrow.
"""

import sys
from importlib import import_module
from importlib.machinery import PathFinder
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from state_backends.checkpoints.export import write_savepoint
    from state_backends.checkpoints.reading import read_state, summarize_state
    from state_backends.config import StateConfig, known_options, resolve
    from state_backends.errors import StateError
    from state_backends.interface import StateBackend, WriteBatch
    from state_backends.registry import load_backend
    from state_backends.store.entries import Entries
    from state_backends.store.window_store import WindowStore

_HOMES = {
    "state_backends.checkpoints.export": ("write_savepoint",),
    "state_backends.checkpoints.reading": ("read_state", "summarize_state"),
    "state_backends.config": ("StateConfig", "known_options", "resolve"),
    "state_backends.errors": ("StateError",),
    "state_backends.interface": ("StateBackend", "WriteBatch"),
    "state_backends.registry": ("load_backend",),
    "state_backends.store.entries": ("Entries",),
    "state_backends.store.window_store": ("WindowStore",),
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


def _hidden(package: str, module: str) -> str | None:
    """Return what is wrong if another project's module stands in the place of a package of this library.

    As in `operators`: neither can import this from the other before it is known which one that is.

    Args:
        package: a package of this library.
        module: one in it, by which a copy of it in another folder is known.
    """
    loaded = sys.modules.get(package)
    spec = find_spec(package) if loaded is None else getattr(loaded, "__spec__", None)
    places = list(getattr(spec, "submodule_search_locations", None) or ())
    ours = __path__[0].removesuffix(__name__) + package
    if spec is None or spec.origin is None or ours in places:
        return None
    if places and PathFinder.find_spec(f"{package}.{module}", places):
        return None
    return (
        f"another module named {package!r} hides the one of this library: {spec.origin} is found before {ours}. "
        "Rename it, or move it into a package; or run from another folder: `python -P` and PYTHONSAFEPATH=1 leave out the "
        "folder of the script, from Python 3.11 on; or change the order of sys.path. "
        "The documentation has more: Errors, Names that collide"
    )


if _problem := _hidden("serializers", "row_parts"):
    raise ImportError(_problem, name="serializers")
if _problem := _hidden("operators", "kinds"):  # which this package does not need
    import warnings

    warnings.warn(_problem, RuntimeWarning, stacklevel=2)


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(
            f"module 'state_backends' has no attribute {name!r}; it has {', '.join(__all__)}"
        )
    return getattr(import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
