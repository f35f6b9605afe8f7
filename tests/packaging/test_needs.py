"""What the tests import comes with the extra `test`: `make test` installs nothing else."""

import ast
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator
from importlib import import_module
from importlib.metadata import PackageNotFoundError, packages_distributions, requires
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.packaging.extras import USES
from tests.test_architecture import executed, imported

ROOT = Path(__file__).parents[2]
PROJECT = import_module("tomllib" if sys.version_info >= (3, 11) else "tomli").loads(
    (ROOT / "pyproject.toml").read_text("utf-8")
)["project"]
INSTALLED_BY_TESTS = {"pyiceberg"}
"""Modules that tests install into a folder of their own, since no extra has them: `tests.lake.environment`."""
OURS = {"benchmarks", "docs", "examples", "operators", "serializers", "state_backends", "tests"}


def needed(name: str, extras: Iterable[str]) -> list[str]:
    """The requirements of a distribution with these extras, as pyproject.toml or its metadata have them."""
    extras = ["", *extras]
    if name == canonicalize_name(PROJECT["name"]):
        return [
            *PROJECT["dependencies"],
            *(one for extra in extras[1:] for one in PROJECT["optional-dependencies"][extra]),
        ]
    try:
        stated = [Requirement(one) for one in requires(name) or []]
    except PackageNotFoundError:
        return []
    return [
        str(one)
        for one in stated
        if one.marker is None or any(one.marker.evaluate({"extra": extra}) for extra in extras)
    ]


def brought(*first: str) -> set[str]:
    """The distributions that pip installs for these requirements."""
    seen: set[tuple[str, frozenset[str]]] = set()
    todo = list(first)
    while todo:
        one = Requirement(todo.pop())
        key = canonicalize_name(one.name), frozenset(one.extras)
        if key not in seen and (
            one.marker is None or one.marker.evaluate({"extra": ""}) or "extra" in str(one.marker)
        ):
            seen.add(key)
            todo += needed(*key)
    return {name for name, _ in seen}


def beside(path: Path) -> set[str]:
    """The modules of tests that a test finds as its neighbours: `pythonpath` names the folder."""
    return {one.stem for one in path.glob("*.py")}


def sources() -> Iterator[tuple[Path, set[str]]]:
    """Each file under `tests` with all its imports, and what they load of our other trees with what runs there."""
    todo = sorted((ROOT / "tests").rglob("*.py"))
    seen = set(todo)
    while todo:
        path = todo.pop()
        tree = ast.parse(path.read_text("utf-8"))
        nodes = ast.walk(tree) if ROOT / "tests" in path.parents else executed(tree)
        names = {name for node in nodes if not getattr(node, "level", 0) for name in imported(node)}
        names |= {
            f"{node.module}.{alias.name}"
            for node in ast.walk(tree)
            if isinstance(node, ast.ImportFrom)
            and (node.module or "").partition(".")[0] in {"benchmarks", "docs", "examples"}
            for alias in node.names
        }
        yield path, names
        for name in names:
            if name.partition(".")[0] in {"benchmarks", "docs", "examples"}:
                place = ROOT.joinpath(*name.split("."))
                found = {place.with_suffix(".py"), place / "__init__.py"}
                todo += [one for one in found - seen if one.is_file()]
                seen |= found


def test_tests_import_what_the_extra_test_brings() -> None:
    """Wherever the import stands, and in all of benchmarks, examples and docs that a test imports."""
    there = brought(f"{PROJECT['name']}[test]")
    assert {"pyspark", "pytest", "matplotlib", "moto"} <= there
    assert not {"polars", "duckdb", "mypy"} & there
    homes = packages_distributions()
    local = OURS | beside(ROOT / "tests") | sys.stdlib_module_names | INSTALLED_BY_TESTS
    lacking = {
        (str(path.relative_to(ROOT)), name)
        for path, names in sources()
        for name in names
        if (top := name.partition(".")[0]) not in local
        and not there & {canonicalize_name(home) for home in homes.get(top, [])}
    }
    assert set() == lacking


@pytest.mark.slow
@pytest.mark.parametrize("name", ["polars", "polars.testing", "nothing_of_that_name"])
def test_what_is_lacking_is_found(name: str) -> None:
    """A module of no distribution, or of one that only another extra brings."""
    homes = {canonicalize_name(one) for one in packages_distributions().get(name.partition(".")[0], [])}
    assert not homes & brought(f"{PROJECT['name']}[test]")


def test_each_extra_has_its_use() -> None:
    """`tests.packaging.extras` tries every extra."""
    assert {*PROJECT["optional-dependencies"]} == {*USES}


HIDING = """
import sys
class Hiding:
    def __init__(self, finder):
        self.finder = finder
    def find_spec(self, name, path=None, target=None):
        return None if name.partition(".")[0] in {lacking!r} else self.finder.find_spec(name, path, target)
    def __getattr__(self, name):
        return getattr(self.finder, name)
sys.meta_path[:] = map(Hiding, sys.meta_path)
"""


@pytest.mark.slow
@pytest.mark.parametrize("extra", sorted(USES))
def test_an_extra_does_with_what_it_brings(extra: str, tmp_path: Path) -> None:
    """Its use imports nothing of other distributions; `tests.packaging.extras` shows the same with nothing else installed."""
    there = brought(f"{PROJECT['name']}[{extra}]")
    homes = {
        name: {canonicalize_name(home) for home in found} for name, found in packages_distributions().items()
    }
    if there - {home for found in homes.values() for home in found} - {canonicalize_name(PROJECT["name"])}:
        pytest.skip(f"the extra {extra} is not installed here")
    lacking = {name for name, found in homes.items() if not found & there and name not in OURS}
    assert extra == "dev" or "mypy" in lacking or "mypy" not in homes
    for path in ROOT.glob("[!.]*"):
        (tmp_path / path.name).symlink_to(path)
    program = HIDING.format(lacking=lacking) + USES[extra]
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert 0 == done.returncode, done.stdout


@pytest.mark.slow
def test_tests_of_all_kinds_are_reached() -> None:
    """The search does reach benchmarks by way of the tests."""
    paths = {str(path.relative_to(ROOT)) for path, _ in sources()}
    assert {
        "benchmarks/nexmark/delays.py",
        "docs/pictures/inside.py",
        "tests/benchmarks/test_nexmark.py",
    } <= paths
    assert all(re.match(r"(tests|benchmarks|docs|examples)/", path) for path in paths)
