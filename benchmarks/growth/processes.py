"""Runs a module of the benchmarks in a process of its own, and returns what it printed."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
Stages = dict[str, dict[str, Any]]


def stages(module: str, *args: object) -> Stages:
    """Run a module, and return its lines of JSON as one dictionary.

    Raises:
        RuntimeError: it failed; the message has the end of its output.
    """
    command = [sys.executable, "-m", module, *map(str, args)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command[2:])} failed: {done.stderr[-2_000:]}")
    found: Stages = {}
    for line in done.stdout.splitlines():
        if line.startswith("{"):
            found |= json.loads(line)
    return found
