"""The backends by name: built in, registered as entry points, or given as module:attribute."""

import difflib
from collections.abc import Iterable
from importlib import import_module

from state_backends.errors import StateError
from state_backends.interface import StateBackend

ENTRY_POINTS = "stateful_windows.state_backends"
BUILT_IN = {
    "memory": "state_backends.backends.memory:MemoryBackend",
    "rocksdb": "state_backends.backends.rocksdb:RocksDBBackend",
    "spark": "state_backends.backends.spark_state:SparkStateBackend",
}


def load_backend(name: str) -> type[StateBackend]:
    """Return the backend class of that name.

    Raises:
        ValueError: the name is unknown, or not of a StateBackend.
        StateError: it cannot be imported.
    """
    if not isinstance(name, str):
        raise ValueError(  # noqa: TRY004 - as an unknown name
            f"state backend {name!r} is not a string: give a name such as 'rocksdb', or 'module:attribute'"
        )
    target = BUILT_IN.get(name)
    registered = {} if target else _registered()
    target = target or registered.get(name) or (name if ":" in name else None)
    if target is None:
        raise ValueError(unknown_name(f"state backend {name!r}", name, [*BUILT_IN, *registered]))
    module, _, attribute = target.partition(":")
    try:
        found = getattr(import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise StateError(
            f"state backend {name!r} ({target}) cannot be imported: {error}. Install its package on the driver and on all "
            "workers"
        ) from error
    if not (isinstance(found, type) and issubclass(found, StateBackend)):
        raise ValueError(  # noqa: TRY004 - the name in the configuration is wrong
            f"state backend {name!r} ({target}) is not a subclass of state_backends.StateBackend"
        )
    return found


def _registered() -> dict[str, str]:
    """The backends that installed packages have registered. The search takes about 15 ms, and so does what it imports."""
    from importlib.metadata import entry_points

    return {point.name: point.value for point in entry_points(group=ENTRY_POINTS)}


def unknown_name(what: str, unknown: str, known: Iterable[str]) -> str:
    """Return the message about an unknown name: what it is, the name that was probably meant, and the known ones."""
    known = sorted(known)
    close = nearest(unknown, known)
    hint = f"; did you mean {close}?" if close else "."
    return f"unknown {what}{hint} Known: {', '.join(known)}"


def nearest(unknown: str, known: Iterable[str]) -> str | None:
    """Return the known name that was probably meant, whatever its case, or None."""
    by_lower = {name.lower(): name for name in known}
    close = difflib.get_close_matches(unknown.lower(), by_lower, n=1)
    return by_lower[close[0]] if close else None
