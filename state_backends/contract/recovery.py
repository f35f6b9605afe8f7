"""Promises about what is found after a close, after a kill, and after any calls in any order."""

import os
import random
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import IO, cast

import pytest

from state_backends.contract.base import Contract
from state_backends.contract.crashes import crash_state
from state_backends.contract.states import Pages, applied, assert_holds, check, fail, random_batch
from state_backends.interface import WriteBatch

_WHOLE = "a store that is opened again shows the state after some write, whole, or is empty"


class RecoveryContract(Contract):
    """After a close, or a kill of its process, a store holds some version, whole."""

    def test_reopened_store_is_some_version_whole(self, directory: Path) -> None:
        """A store that is closed and opened again shows the state after some write, whole, or is empty."""
        states: dict[bytes | None, Pages] = {None: {}}
        for number in range(5):
            with closing(self.open(directory)) as backend:
                pages = _known(states, backend.version)
                assert_holds(backend, pages, backend.version, _WHOLE)
                for step in range(3):
                    batch = WriteBatch({number: {b"%d" % step: b"page"}}, {number - 1: {b"0"}}, number - 2)
                    pages, version = applied(pages, batch), b"%d-%d" % (number, step)
                    backend.write(batch, version)
                    states[version] = pages

    def test_killed_process_leaves_some_version_whole(self, directory: Path) -> None:
        """A process killed while it writes leaves the state after some write, whole, or an empty store."""
        name = f"{self.backend_class.__module__}:{self.backend_class.__qualname__}"
        if "<locals>" in name:
            pytest.skip("the backend class cannot be imported by another process")
        arguments = f"{name!r}, {str(directory)!r}, {dict(self.options)!r}"
        code = f"from state_backends.contract import write_forever; write_forever({arguments})"
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(entry or os.curdir for entry in sys.path)}
        command = [sys.executable, "-c", code]
        with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment) as child:
            begun = cast("IO[bytes]", child.stdout).readline()
            child.kill()
        check(f"another process can import and write {name}; what it said is above", b"writing\n", begun)
        with closing(self.open(directory)) as backend:
            number = -1 if backend.version is None else int(backend.version)
            promise = "a killed process leaves the state after some write, whole, or an empty store"
            assert_holds(backend, crash_state(number), backend.version, promise)
            backend.write(WriteBatch(), b"after")

    def test_random_writes(self, directory: Path) -> None:
        """Whatever is written, the store holds what dictionaries hold, through clear, close and reopen."""
        seed = random.randrange(2**32) if self.seed is None else self.seed
        print(f"seed = {seed}")
        rng = random.Random(seed)
        pages: Pages = {}
        version: bytes | None = None
        states: dict[bytes | None, Pages] = {None: {}}
        backend = self.open(directory)
        try:
            for step in range(self.steps):
                chance = rng.random()
                if chance < 0.03:
                    backend.clear()
                    pages, version, states = {}, None, {None: {}}
                elif chance < 0.08:
                    backend.close()
                    backend = self.open(directory)
                    version = backend.version
                    pages = _known(states, version)
                else:
                    batch, version = random_batch(rng), b"%d" % step
                    backend.write(batch, version)
                    pages = states[version] = applied(pages, batch)
                assert_holds(
                    backend,
                    pages,
                    version,
                    f"a store holds what dictionaries hold, step {step} of seed {seed}",
                )
        finally:
            backend.close()


def _known(states: dict[bytes | None, Pages], version: bytes | None) -> Pages:
    """The pages of a version that was written."""
    __tracebackhide__ = True
    if version not in states:
        fail(_WHOLE, f"its version is {version!r}, which no write gave")
    return states[version]
