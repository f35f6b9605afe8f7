"""The contract suite finds bugs: each backend with one bug put into its source fails the test that is named with it."""

import importlib
import re
from contextlib import closing
from inspect import signature
from pathlib import Path

import pytest

from state_backends import StateBackend
from state_backends.contract import BackendContract
from state_backends.contract.states import DAMAGES
from state_backends.errors import DamagedCopyError
from tests.effort import slow, soak
from tests.state_backends.contract.bugs import FAILED, KILLED, OTHERS, SEVEN, SOURCES, Bug

ROOT = Path(__file__).parents[3]
CHOSEN = (
    "sqlite: version after the pages",
    "sqlite: clear with the version last",
    "rocksdb: version before the pages",
)
"""The bugs that `make test` looks for, of those whose tests take long."""

LONGEST = ("rocksdb: a killed restore leaves what does not open",)
"""Those that only `make soak` looks for."""


def cases(bugs: list[Bug]) -> list[object]:
    """The bugs as parameters; most of those that take long are slow."""
    quick = [bug.test not in {KILLED, FAILED} or bug.name in CHOSEN for bug in bugs]
    return [
        pytest.param(bug, id=bug.name) if fast else (soak if bug.name in LONGEST else slow)(bug, id=bug.name)
        for bug, fast in zip(bugs, quick, strict=True)
    ]


@pytest.mark.parametrize("bug", cases([*SEVEN, *OTHERS]))
def test_bug_is_found(bug: Bug, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The named test of the suite fails, with a broken promise."""
    backend_class = broken(bug, tmp_path, monkeypatch)
    suite = type("Suite", (BackendContract,), {"backend_class": backend_class, "seed": 1})()
    directory = tmp_path / "a" / "store"
    given = {
        "directory": directory,
        "tmp_path": tmp_path,
        "monkeypatch": monkeypatch,
        "what": bug.parameter,
        "damage": DAMAGES.get(bug.parameter),
    }
    # SQLite counts its pages and has checksums, and finds some bugs itself.
    broken_promise = "a promise of StateBackend is broken|pages.db is damaged: "
    with pytest.raises((AssertionError, DamagedCopyError), match=broken_promise) as found:
        run(suite, f"test_{bug.test}", given)
    print(found.value)  # noqa: T201 - what the author would read


def run(suite: BackendContract, name: str, given: dict[str, object]) -> None:
    """Run one test of the suite with what it asks for."""
    test = getattr(suite, name)
    wanted = [parameter for parameter in signature(test).parameters if parameter != "backend"]
    chosen = {parameter: given[parameter] for parameter in wanted}
    if "backend" not in signature(test).parameters:
        test(**chosen)
        return
    with closing(suite.open(given["directory"])) as backend:
        test(backend, **chosen)


def broken(bug: Bug, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> type[StateBackend]:
    """The backend's class from a copy of its module that has the bug, and that other processes can import."""
    path, class_name = SOURCES[bug.backend]
    text = (ROOT / path).read_text()
    assert 1 == text.count(bug.old), f"mend this bug: its text is {text.count(bug.old)} times in {path}"
    name = re.sub(r"\W", "_", f"broken_{tmp_path.name}")
    (tmp_path / f"{name}.py").write_text(text.replace(bug.old, bug.new))
    monkeypatch.syspath_prepend(tmp_path)
    found: type[StateBackend] = getattr(importlib.import_module(name), class_name)
    return found
