"""Patterns of texts, which are searched in time that grows with their length and no faster; and of code that asks for types."""

import re
import resource
import subprocess
import sys
from collections.abc import Callable, Iterator
from importlib import import_module
from inspect import getsource
from pathlib import Path
from pkgutil import walk_packages
from typing import Any

import pytest

import operators
import serializers
import state_backends
from operators import WorkerError, what_failed
from operators.columns.duration_text import parse
from operators.command.errors import one_line
from state_backends.checkpoints.metadata import UNCOMMITTED, lost_state, moved_error, named_commits_error

ROOT = Path(__file__).parents[1]
LENGTH = 100_000
MOST_SECONDS = 100
"""Of the processor, for all of it: hundreds of searches that take milliseconds, of which one that is quadratic takes more."""
BLOCKS = (
    " ",
    "\n",
    " \n",
    "\t",
    "a",
    "A",
    "1",
    "0.",
    "a.",
    "a/",
    "1 a ",
    "'",
    "\\",
    "/",
    "\n at a.b(",
    "\nCaused by: ",
)
WAYS: dict[str, Callable[["re.Pattern[str]", str], Any]] = {
    "search": lambda pattern, text: pattern.search(text),
    "match": lambda pattern, text: pattern.match(text),
    "fullmatch": lambda pattern, text: pattern.fullmatch(text),
    "findall": lambda pattern, text: pattern.findall(text),
    "finditer": lambda pattern, text: [*pattern.finditer(text)],
    "sub": lambda pattern, text: pattern.sub("", text),
}
OPTIONAL = {"operators.sinks.delta", "operators.testing.plugin"}


def patterns() -> Iterator[tuple[str, "re.Pattern[str]", list[str]]]:
    """Yield the patterns of all modules, by name, and how their modules use them."""
    for package in (operators, state_backends, serializers):
        for module in walk_packages(package.__path__, f"{package.__name__}."):
            if module.name.endswith("__main__") or module.name in OPTIONAL:
                continue
            found = import_module(module.name)
            for name, value in vars(found).items():
                if isinstance(value, re.Pattern):
                    ways = re.findall(rf"{name}\.(\w+)\(", getsource(found))
                    yield f"{module.name}.{name}", value, ways or ["fullmatch"]


def texts(begin: str) -> Iterator[str]:
    """Yield long texts in which a search can lose its way, after this beginning."""
    for block in (*BLOCKS, begin):
        if block:
            many = block * (LENGTH // len(block))
            yield from (f"{begin}{many}", f"{begin}{many}!", f"{many}{begin}")


def begins(pattern: str) -> set[str]:
    """Return what matches of a pattern may begin with: nothing, and each of its literal parts."""
    literal = re.sub(r"\\(.)", r"\1", pattern)
    return {"", *(part for part in re.split(r"[\[\]()|*+?^$\\{}]", literal) if len(part) > 3)}


def uses() -> Iterator[tuple[str, Callable[[str], Any], set[str]]]:
    """Yield what is done with texts of others, and how such a text begins."""
    mark = f"{WorkerError.__name__}: operator 'windows', bucket 1 of 2: ValueError: "
    trace = "Traceback (most recent call last)\nValueError: "
    sources = "There are [1] sources in the checkpoint offsets"
    yield "what_failed", lambda text: what_failed(ValueError(text)), {"", mark, "ImportError: ", sources}
    yield "one_line", lambda text: one_line(RuntimeError(text)), {"", mark, trace, "Caused by: a."}
    yield (
        "moved",
        lambda text: moved_error(ValueError(text), "cp"),
        {"", "File ", "File a/state/1/_stateSchema/"},
    )
    yield (
        "lost_state",
        lost_state,
        {"", "[CANNOT_LOAD_STATE_STORE.A] ", "/state/1/1/", f"[{UNCOMMITTED}] ", "checkpointLocation="},
    )
    yield "named_commits", lambda text: named_commits_error(ValueError(text)), {"NumberFormatException: "}
    yield "parse", refused, {"", "P", "INTERVAL '", "INTERVAL 1", "1 day "}


def refused(text: str) -> None:
    """Read a length of time that is none."""
    try:
        parse(text)
    except ValueError:
        return


def search_all() -> None:
    """Search for each pattern, in all ways, and do all that is done; print what is next, so that a failure can be named."""
    for name, pattern, methods in patterns():
        print(name, flush=True)  # noqa: T201 - for the process that waits
        for begin in begins(pattern.pattern):
            for text in texts(begin):
                for method in methods:
                    WAYS[method](pattern, text)
    for name, use, begin_with in uses():
        print(name, flush=True)  # noqa: T201 - as above
        for begin in begin_with:
            for text in texts(begin):
                use(text)


def test_the_patterns_are_found() -> None:
    """Those of errors, of files and of lengths among them."""
    found = {name for name, _, _ in patterns()}
    assert {
        "operators.spark.base.inside.APPENDED",
        "operators.command.errors._RAISED",
        "operators.columns.duration_text._ISO",
        "state_backends.durability.folders._FILE_NAME",
    } <= found


@pytest.mark.slow
def test_long_texts_are_searched_quickly() -> None:
    """In a process that has some seconds of the processor for it."""
    done = subprocess.run(
        [sys.executable, "-c", "from tests.test_patterns import search_all; search_all()"],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
        check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CPU, (MOST_SECONDS, MOST_SECONDS)),
    )
    last = done.stdout.splitlines()[-1:]
    assert done.returncode == 0, f"{last} took too long, or failed"


def test_what_a_worker_said_is_cut_from_what_spark_adds() -> None:
    """Empty lines and spaces of the message are kept, and those before the first line that is not its own are not."""
    said = "op: ValueError: a record \n\n   of two lines"
    for added in (
        "\tat org.apache.Spark(",
        "Caused by: x",
        " SQLSTATE: XX",
        "Traceback (most recent",
        "JVM stacktrace:",
    ):
        error = RuntimeError(f"x WorkerError: y WorkerError: {said}  \n \n{added}\nmore\n")
        assert what_failed(error) == said
    assert what_failed(RuntimeError(f"WorkerError: {said} \n")) == said


@pytest.mark.parametrize("path", ["/a b/cp", "s3://bucket/state/2/cp"])
def test_where_a_checkpoint_was(path: str) -> None:
    """Is found in Spark's error, whatever its path is like."""
    error = f"[X] y\nFile {path}/state/0/_stateSchema/default/0_1 does not exist\n\tat z"
    assert f"looks for its state in {path}, since" in str(moved_error(ValueError(error), "/new/cp"))
    assert moved_error(ValueError("File /a/state/x/_stateSchema/b does not exist"), "/new/cp") is None


OWN = ("operators/engines/", "operators/custom/", "operators/kinds/")
"""Where plans, engines and their outputs are defined."""
ASKED = re.compile(
    r"isinstance\([^()]*\b(?:\w*(?:Plan|Engine|Kind)|Sliding|Hopping|Rolling|\w+Output|OutputSchema)\b"
)
OTHERS = ("BatchOutput",)
"""What has such a name, and is no output of an operator."""


@pytest.mark.slow
def test_a_plan_answers_for_itself() -> None:
    """No other module asks for the type of a plan, an engine, a kind or an output: a method says what it is."""
    modules = (path for package in ("operators", "state_backends") for path in (ROOT / package).rglob("*.py"))
    asked = [
        f"{name}: {found[0]}"
        for module in modules
        if not (name := str(module.relative_to(ROOT))).startswith(OWN)
        for found in ASKED.finditer(module.read_text())
        if not any(other in found[0] for other in OTHERS)
    ]
    assert asked == []
