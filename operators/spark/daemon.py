"""Spark's daemon of Python workers, which has loaded what they need before it forks them.

Spark ends each worker that has no task for a minute, and a new one takes most of a second of processor time to import pandas,
Arrow and this library. Workers that are forked from this daemon have them. It is used where `spark.python.daemon.module` names
this module, and this library is installed in the Python of the executors.

What is imported here starts no thread of Python. Those of OpenBLAS and of Arrow's allocator survive a fork: both libraries stop
them before, and start them again after it.
"""

import gc
import importlib
import pkgutil
import sys
import zipimport
from contextlib import suppress

import pandas as pd  # noqa: F401 - for the workers
import pyarrow.compute
import pyarrow.ipc
import pyarrow.pandas_compat  # noqa: F401 - for the workers
import pyspark.worker  # noqa: F401 - for the workers
from pyspark.daemon import manager

import operators.custom
import operators.engines
import operators.kinds
import operators.spark.batch.bounded
import operators.spark.inputs.packing
import operators.spark.stream.bucket_task

MESSAGES = "pyspark.sql.streaming.proto.StateMessage_pb2"
"""What Spark's stateful API says to the JVM in; PySpark imports it with the first word. It needs protobuf."""


def load() -> None:
    """Import what a worker would import in its first task, and leave it nothing to read again."""
    for package in (operators.kinds, operators.engines, operators.custom):
        for module in pkgutil.iter_modules(package.__path__, f"{package.__name__}."):
            importlib.import_module(module.name)
    with suppress(ImportError):
        importlib.import_module(MESSAGES)
    # A worker begins with importlib.invalidate_caches(), for files that the session may have added. Before Python 3.13 each
    # known folder of a zip file, PySpark's own have 18, then reads the whole file's directory: 0.2 s of processor time.
    for path, finder in [*sys.path_importer_cache.items()]:
        if isinstance(finder, zipimport.zipimporter):
            del sys.path_importer_cache[path]


if __name__ == "__main__":
    load()
    gc.freeze()  # What is loaded is shared with the workers: their collectors leave it as it is.
    manager()
