"""Spark's daemon of Python workers, which has loaded what they need before it forks them.

Spark ends each worker that has no task for a minute, and a new one takes most of a second of processor time to import pandas,
Arrow and this library. Workers that are forked from this daemon have them, and so have the processes that hold buckets' copies.
It is used where `spark.python.daemon.module` names this module, and this library is installed in the Python of the executors.

What is imported here starts no thread of Python. Those of OpenBLAS and of Arrow's allocator survive a fork: both libraries stop
them before, and start them again after it.
"""

import gc
import sys
import zipimport
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules

_LOADED = (
    "pandas",
    "pyarrow.compute",
    "pyarrow.ipc",
    "pyarrow.pandas_compat",
    "pyspark.worker",
    "operators.spark.batch.bounded",
    "operators.spark.inputs.packing",
    "operators.spark.replicas.results",
    "operators.spark.replicas.starter",
    "operators.spark.stream.bucket_task",
    "operators.spark.stream.processor",
)
_LOADED_WHOLE = "operators.kinds", "operators.engines", "operators.custom"
MESSAGES = "pyspark.sql.streaming.proto.StateMessage_pb2"
"""What Spark's stateful API says to the JVM in; PySpark imports it with the first word. It needs protobuf."""


def load() -> None:
    """Import what a worker would import in its first task, and leave it nothing to read again."""
    sys.path[:] = without_archives(sys.path)
    for name in _LOADED:
        import_module(name)
    for package in map(import_module, _LOADED_WHOLE):
        for module in iter_modules(package.__path__, f"{package.__name__}."):
            import_module(module.name)
    with suppress(ImportError):
        import_module(MESSAGES)
    # A worker begins with importlib.invalidate_caches(), for files that the session may have added. Before Python 3.13 each
    # known folder of a zip file, PySpark's own have 18, then reads the whole file's directory: 0.2 s of processor time.
    for path, finder in [*sys.path_importer_cache.items()]:
        if isinstance(finder, zipimport.zipimporter):
            del sys.path_importer_cache[path]


def without_archives(path: list[str]) -> list[str]:
    """Return a search path without archives of the PySpark that is found on it without them, too.

    Spark has its workers read PySpark from the archive that an installed PySpark contains. What comes from an archive is
    compiled in each process anew: 0.6 s of processor time for a worker.

    Args:
        path: as `sys.path`.
    """
    installed = next((Path(entry) for entry in path if Path(entry, "pyspark", "__init__.py").is_file()), None)
    if installed is None or not (installed / "py4j").is_dir():
        return path
    return [entry for entry in path if not Path(entry).is_relative_to(installed / "pyspark")]


if __name__ == "__main__":
    load()
    gc.freeze()  # What is loaded is shared with the workers: their collectors leave it as it is.
    from pyspark.daemon import manager

    from operators.spark.replicas.starter import fork_starter
    from operators.spark.replicas.starting import use_starter

    use_starter(fork_starter())
    manager()
