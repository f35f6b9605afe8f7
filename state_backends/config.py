"""Which backend, with which options: read on the driver, checked there, and sent to the workers as one frozen value."""

import os
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from state_backends.durability.folders import Folder
from state_backends.durability.policy import SnapshotPolicy
from state_backends.interface import StateBackend
from state_backends.registry import BUILT_IN, ENTRY_POINTS, load_backend, unknown_name

PREFIX = "spark.windows."
DEFAULT_BACKEND = "memory"
_SNAPSHOTS = "state.snapshots."
_LEVELS = ("debug", "info", "warning", "error")
_UNITS = {"b": 0, "k": 10, "m": 20, "g": 30}
_GENERAL = {
    "state.backend": "memory (default), rocksdb, spark, a name from the entry-point group "
    f"{ENTRY_POINTS}, or module:attribute",
    "state.buckets": "number of slices of the key space, each one task (default: spark.sql.shuffle.partitions)",
    "state.directory": "local directory of the workers for state (default: Spark's local directory, or a temporary one)",
    "state.snapshots.folder": "folder for snapshots that all workers can access, a local path or a URI of s3, gs or hdfs, "
    "such as one in the query's checkpoint (default: Spark's state store keeps them)",
    "state.snapshots.bytes": "bytes of changes after which a snapshot is written, such as 64m (default: 16m, or an eighth "
    "of the last snapshot if that is more)",
    "state.snapshots.batches": "batches with changes after which a snapshot is written (default 1000)",
    "state.snapshots.retain": "batches for which a replaced snapshot is kept "
    "(default: spark.sql.streaming.minBatchesToRetain)",
    "state.snapshots.background": "whether batches continue while a snapshot is written: true (default) or false",
    "state.forget.folder": "folder of requests to forget keys, written by operators.forget and looked for by each batch of a "
    "query: a local path that all workers can access, or a URI, as for snapshots (default: none)",
    "state.sync": "of a local runner with a directory: whether a batch is on the disk, safe from a power loss, when `process` "
    "returns: true (default) or false",
    "state.savepoint": "folder of a savepoint that a query without a checkpoint starts from (default: the empty state)",
    "state.evolution": "what to do with stored state when aggregates were added, removed or widened: refuse (default) or adapt",
    "log.level": "log level of the workers: warning (default), info for one line per bucket and batch, or debug",
    "state.segment": "length of a stored time segment, such as '10 minutes' (default: by the windows' size)",
}


@dataclass(frozen=True)
class StateConfig:
    """A backend by name and every option that was set, by name below `spark.windows.`, as text."""

    backend: str
    options: tuple[tuple[str, str], ...] = ()

    @cached_property
    def _options(self) -> dict[str, str]:
        return dict(self.options)

    @property
    def backend_class(self) -> type[StateBackend]:
        """The class of the backend."""
        return load_backend(self.backend)

    @property
    def backend_options(self) -> dict[str, str]:
        """The options of the backend by short name."""
        prefix = f"state.{option_scope(self.backend)}."
        return {k.removeprefix(prefix): v for k, v in self.options if k.startswith(prefix)}

    def open(self, directory: Path) -> StateBackend:
        """Open the backend in a directory."""
        return self.backend_class.open(directory, self.backend_options)

    @property
    def buckets(self) -> int | None:
        """Number of buckets, or None for Spark's number of shuffle partitions."""
        text = self._options.get("state.buckets")
        return None if text is None else _count("state.buckets", text, 0)

    @property
    def segment(self) -> str | None:
        """Length of a segment as text, or None for the default."""
        return self._options.get("state.segment")

    @property
    def snapshots(self) -> SnapshotPolicy:
        """Where snapshots go, and when."""
        options = {k.rpartition(".")[2]: v for k, v in self.options if k.startswith(_SNAPSHOTS)}
        default = SnapshotPolicy()
        return SnapshotPolicy(
            folder=options.get("folder") or None,
            bytes=_bytes(options.get("bytes")),
            batches=_count(f"{_SNAPSHOTS}batches", options.get("batches"), default.batches),
            retain=_count(f"{_SNAPSHOTS}retain", options.get("retain"), default.retain),
            background=self._flag(f"{_SNAPSHOTS}background"),
        )

    @property
    def forget_folder(self) -> str | None:
        """Folder of the requests to forget keys, or None."""
        folder = self._options.get("state.forget.folder") or None
        if folder is not None:
            Folder(folder)  # Refused on the driver, before any batch.
        return folder

    @property
    def waits_for_disk(self) -> bool:
        """Whether each batch of a local runner waits until it is on the disk."""
        return self._flag("state.sync")

    def _flag(self, option: str) -> bool:
        value = self._options.get(option, "true")
        if value not in ("true", "false"):
            raise ValueError(f"{PREFIX}{option} is {value!r}: it must be true or false")
        return value == "true"

    def with_default(self, option: str, value: str | None) -> "StateConfig":
        """Return the configuration with an option set, if it is not set already; None sets nothing."""
        if value is None or option in self._options:
            return self
        return StateConfig(self.backend, tuple(sorted([*self.options, (option, value)])))

    @property
    def evolution(self) -> str:
        """What to do with stored state when the aggregates have changed: "refuse" or "adapt"."""
        value = self._options.get("state.evolution", "refuse")
        if value not in ("refuse", "adapt"):
            raise ValueError(f"{PREFIX}state.evolution is {value!r}: it must be refuse or adapt")
        return value

    @property
    def log_level(self) -> str:
        """The log level of the workers."""
        value = self._options.get("log.level", "warning")
        if value not in _LEVELS:
            raise ValueError(f"{PREFIX}log.level is {value!r}: it must be one of {', '.join(_LEVELS)}")
        return value

    @property
    def savepoint(self) -> str | None:
        """Folder of the savepoint that a new query starts from, or None."""
        return self._options.get("state.savepoint") or None

    @property
    def directory(self) -> Path:
        """The directory of local state on this machine."""
        chosen = self._options.get("state.directory")
        if chosen:
            return Path(chosen)
        spark_local = os.environ.get("SPARK_LOCAL_DIRS", "").split(",")[0]
        return Path(spark_local or tempfile.gettempdir()) / "spark-stateful-windows"


def resolve(
    backend: str | None = None,
    options: Mapping[str, object] | None = None,
    conf: Mapping[str, str] | None = None,
) -> StateConfig:
    """Return the configuration: arguments before Spark conf before defaults.

    Args:
        backend: name given to `apply`.
        options: options given to `apply`, by name with or without the prefix `spark.windows.`.
        conf: all of Spark's conf; names without the prefix are ignored.

    Raises:
        ValueError: an unknown option or backend, with the known ones.
    """
    if not isinstance(options, Mapping | None):
        raise ValueError(  # noqa: TRY004 - as any other wrong option
            f"options is {options!r}: it must map names to values, such as {{'state.buckets': 8}}"
        )
    merged = {k.removeprefix(PREFIX): v for k, v in (conf or {}).items() if k.startswith(PREFIX)}
    merged |= {k.removeprefix(PREFIX): _text(v) for k, v in (options or {}).items()}
    name = backend or merged.get("state.backend") or DEFAULT_BACKEND
    known = known_options(name)
    for key in merged:
        if key not in known:
            raise ValueError(unknown_name(f"option {PREFIX}{key}", PREFIX + key, [PREFIX + k for k in known]))
    merged.pop("state.backend", None)
    config = StateConfig(name, tuple(sorted(merged.items())))
    _ = config.buckets, config.snapshots, config.forget_folder, config.waits_for_disk
    _ = config.evolution, config.log_level
    config.backend_class.check_options(config.backend_options)
    return config


def known_options(backend: str) -> dict[str, str]:
    """Return every option by name below `spark.windows.`, with one line of help.

    Options of the other built-in backends are known too, so that switching the backend needs no other change.
    """
    names = {**dict.fromkeys(BUILT_IN), backend: None}
    of_backends = {
        f"state.{option_scope(name)}.{option}": text
        for name in names
        for option, text in load_backend(name).known_options().items()
    }
    return _GENERAL | of_backends


def option_scope(backend: str) -> str:
    """Return the name in a backend's options: the name of the backend, or the last word of module:attribute."""
    return backend.rpartition(":")[2].rpartition(".")[2]


def _count(option: str, text: str | None, default: int) -> int:
    if text is None:
        return default
    if not text.isdecimal() or not 1 <= int(text) <= 100_000:
        raise ValueError(f"{PREFIX}{option} is {text!r}: it must be a whole number from 1 to 100000")
    return int(text)


def _bytes(text: str | None) -> int | None:
    if text is None:
        return None
    number, unit = (text[:-1], text[-1].lower()) if text[-1:].isalpha() else (text, "b")
    if not number.isdecimal() or unit not in _UNITS or not int(number):
        raise ValueError(
            f"{PREFIX}{_SNAPSHOTS}bytes is {text!r}: it must be a whole number of bytes, or one with k, m or g, such as 64m"
        )
    return int(number) << _UNITS[unit]


def _text(value: object) -> str:
    """An option's value as Spark's conf would have it."""
    return str(value).lower() if isinstance(value, bool) else str(value)
