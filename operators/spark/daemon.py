"""Spark's daemon of Python workers, which has loaded what they need before it forks them.

Spark ends each worker that has no task for a minute, and a new one takes most of a second of processor time to import pandas,
Arrow and this library. Workers that are forked from this daemon have them. It is used where `spark.python.daemon.module` names
this module, and this library is installed in the Python of the executors.

What is imported here starts no thread of Python. Those of OpenBLAS and of Arrow's allocator survive a fork: both libraries stop
them before, and start them again after it.
"""

import gc

import pandas as pd  # noqa: F401 - for the workers
import pyarrow.compute
import pyarrow.ipc  # noqa: F401 - for the workers
import pyspark.worker  # noqa: F401 - for the workers
from pyspark.daemon import manager

import operators.spark.batch.bounded
import operators.spark.inputs.packing
import operators.spark.stream.processor  # noqa: F401 - for the workers

if __name__ == "__main__":
    gc.freeze()  # What is loaded is shared with the workers: their collectors leave it as it is.
    manager()
