"""Made-up bytes raise documented errors, and take little memory: a part of what `python -m tests.hostile` reads."""

import random
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.effort import examples
from tests.hostile.targets import DOCUMENTED, Target, targets

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("target", targets(), ids=lambda target: target.name)
def test_seeds_are_read(target: Target) -> None:
    """What the examples are made from is accepted, so that they are only a little wrong."""
    for seed in target.seeds():
        target.read(seed)


@pytest.mark.parametrize("target", targets(), ids=lambda target: target.name)
def test_made_up_bytes_raise_documented_errors(target: Target) -> None:
    """Altered and forged bytes are read, or refused as damaged."""

    @examples(4)
    @given(st.integers(0, 2**32 - 1))
    def read(seed: int) -> None:
        attempt(target, target.example(random.Random(seed)))

    read()


@pytest.mark.parametrize("target", targets(), ids=lambda target: target.name)
def test_any_bytes_raise_documented_errors(target: Target) -> None:
    """So are any bytes, and any after the first of a seed."""
    first = target.seeds()[0]

    @examples(1)
    @given(st.binary(max_size=200), st.integers(0, 40))
    def read(data: bytes, kept: int) -> None:
        attempt(target, first[:kept] + data)

    read()


def attempt(target: Target, data: bytes) -> None:
    """Read, and let pass the errors that may be."""
    shown = ""
    try:
        target.read(data)
    except DOCUMENTED as error:
        shown = str(error)
    assert len(shown) < 2_000, "a message that nobody can read"


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="the limits of a process are those of Linux")
def test_bombs_take_little_memory() -> None:
    """In a process of limited memory, bombs and made-up bytes are refused before they are unpacked, and run no code."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.hostile", "--seconds", "8"],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    print(done.stdout)  # noqa: T201 - what a failure is about
    assert 0 == done.returncode
    assert "; 0 failures" in done.stdout
