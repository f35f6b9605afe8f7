"""Spark's workers collect garbage after each task: not among what modules made, but what tasks leave behind."""

import subprocess
import sys

TASKS = """
import gc, sys
gc.disable()
from operators.spark.base.workers import prepare_worker

class Link:
    pass

def leave_behind():
    link = Link()
    link.itself = link

prepare_worker()
print(len(gc.get_objects()) < 1_000 < gc.get_freeze_count())
leave_behind()
print(gc.collect() > 0)
frozen = gc.get_freeze_count()
prepare_worker()
print(gc.get_freeze_count() <= frozen)
import wsgiref.handlers
prepare_worker()
print(gc.get_freeze_count() > frozen)
"""


def test_collector_looks_only_at_what_tasks_made() -> None:
    """Objects of modules are set aside, also of those that a later task loads; a task's cycles are still found."""
    done = subprocess.run([sys.executable, "-c", TASKS], capture_output=True, text=True, check=True)
    assert ["True"] * 4 == done.stdout.split()
