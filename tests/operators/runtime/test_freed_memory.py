"""Freed memory of a step is there for the next one."""

import platform
import subprocess
import sys

import pytest

STEPS = """
import resource, sys
import numpy as np
from operators.runtime.freed_memory import keep_freed_memory

def step():
    arrays = [np.ones(500_000) for _ in range(10)]
    del arrays

if sys.argv[1] == "kept":
    keep_freed_memory()
step()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(5):
    step()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""
STEP_PAGES = 10 * 500_000 * 8 // 4096


def page_faults(how: str) -> int:
    """Pages that five steps had to get anew."""
    done = subprocess.run([sys.executable, "-c", STEPS, how], capture_output=True, text=True, check=True)
    return int(done.stdout)


@pytest.mark.slow
@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other allocators have ways of their own")
def test_pages_are_kept() -> None:
    """Steps of 40 MB each get most of it anew if nobody cares, and nothing worth speaking of if it is kept."""
    assert page_faults("given back") > STEP_PAGES
    assert page_faults("kept") < STEP_PAGES // 10
