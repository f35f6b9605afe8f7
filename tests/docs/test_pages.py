"""The pages are whole: pictures are those that the library computes, options are known ones, and the menu has every page."""

import re
import runpy
from pathlib import Path
from types import ModuleType

import pytest

import operators
import operators.monitoring
import operators.sinks
import operators.testing
import state_backends
from benchmarks.report.growth import CURVES
from docs.pictures import PICTURES
from serializers.changes import CHANGES_VERSION, EDITS_VERSION
from serializers.keys import KEY_VERSION
from serializers.pages import PAGE_VERSION
from state_backends import known_options
from state_backends.backends.spark_state import FORMAT_VERSION
from state_backends.checkpoints.saved_files import FILE_VERSION
from state_backends.checkpoints.savepoint import SAVEPOINT_VERSION
from state_backends.durability.pointer import POINTER_VERSION
from state_backends.durability.request_folder import REQUEST_VERSION
from state_backends.durability.snapshots import MANIFEST_VERSION
from state_backends.sqlite_journal import JOURNAL_VERSION

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
FORMATS = {
    "page": PAGE_VERSION,
    "key": KEY_VERSION,
    "changelog entry": CHANGES_VERSION,
    "changelog entry with edits": EDITS_VERSION,
    "pointer": POINTER_VERSION,
    "blob of the backend `spark`": FORMAT_VERSION,
    "manifest of a snapshot": MANIFEST_VERSION,
    "savepoint": SAVEPOINT_VERSION,
    "pages of a savepoint": FILE_VERSION,
    "request to forget keys": REQUEST_VERSION,
    "journal in a file": JOURNAL_VERSION,
}
"""Versions of what is stored."""


def test_pictures_are_as_drawn() -> None:
    """A window kind that changes its windows changes the pictures: `python -m docs.pictures` draws them again."""
    measured = {
        "benchmarks.svg",
        "long.svg",
        "report.png",
        "scale.svg",
        *(f"growth-{curve.name}.svg" for curve in CURVES),
    }
    assert {f"{name}.svg" for name in PICTURES} | measured == {p.name for p in DOCS.glob("images/*")}
    for name, draw in PICTURES.items():
        assert draw() == (DOCS / "images" / f"{name}.svg").read_text("utf-8"), name


def test_the_reference_has_every_option_and_no_other() -> None:
    """Those of all built-in backends."""
    page = (DOCS / "reference" / "state.md").read_text("utf-8")
    assert sorted(known_options("memory")) == sorted(
        re.findall(r"^\| `(\w+(?:\.\w+)+)` \|", page, re.MULTILINE)
    )


def test_versions_of_formats_are_those_of_the_code() -> None:
    """A new version of a format is said on the page that promises who reads it."""
    page = (DOCS / "versions.md").read_text("utf-8")
    listed = dict(re.findall(r"^\| ([^|]+) \| (\d+)[^|]* \| [\d, ]+ \|", page, re.MULTILINE))
    assert {name: str(version) for name, version in FORMATS.items()} == {
        name: listed[name] for name in FORMATS
    }


def test_every_page_is_in_the_menu_and_shows_pictures_that_are_there() -> None:
    """The build checks links between pages, but not these."""
    menu = (ROOT / "mkdocs.yml").read_text("utf-8")
    pages = sorted(DOCS.rglob("*.md"))
    assert sorted(str(page.relative_to(DOCS)) for page in pages) == sorted(
        re.findall(r": (\S+\.md)$", menu, re.MULTILINE)
    )
    for page in pages:
        for picture in re.findall(r"!\[[^]]*]\(([^)]+)\)", page.read_text("utf-8")):
            assert (page.parent / picture).is_file(), f"{page.name}: {picture}"


PACKAGES = [operators, operators.monitoring, operators.sinks, operators.testing, state_backends]


@pytest.mark.parametrize("package", PACKAGES, ids=lambda p: p.__name__)
def test_the_reference_has_every_public_name(package: ModuleType) -> None:
    """What a package offers is described, there or as a member of what is."""
    pages = "".join(page.read_text("utf-8") for page in (DOCS / "reference").glob("*.md"))
    described = set(re.findall(r"^::: \S*?(\w+)$", pages, re.MULTILINE))
    described |= set(re.findall(r"\w+", " ".join(re.findall(r"members: \[(.*)]", pages))))
    assert described >= set(package.__all__)


FOLDERS = tuple(
    ROOT / name
    for name in (
        "",
        "operators",
        "operators/spark",
        "operators/spark/batch",
        "operators/spark/replicas",
        "operators/spark/stream",
        "state_backends",
        "state_backends/durability",
        "tests/conformance/live",
        "examples/sqlite_backend",
    )
)
"""What pages leave out before the names of modules."""


def test_modules_that_pages_for_maintainers_name_are_there() -> None:
    """Where a page says "`name` in `module`", the module has the name."""
    for page in ("how-it-works.md", "contributing.md", "writing-an-operator.md", "writing-a-backend.md"):
        text = (DOCS / page).read_text("utf-8")
        for module in re.findall(r"`([\w/*]+\.py)`", text):
            assert [found for folder in FOLDERS for found in folder.glob(module)], f"{page}: {module}"
        for name, module in re.findall(r"`([\w.]+)` in `([\w/]+\.py)`", text):
            found = [folder / module for folder in FOLDERS if (folder / module).is_file()]
            assert name.rpartition(".")[2] in found[0].read_text("utf-8"), f"{page}: {name} in {module}"


def test_the_reference_shows_signatures_to_those_who_read_files() -> None:
    """An argument that is added or renamed is added there, too: `python docs/signatures.py` writes them."""
    write = runpy.run_path(str(DOCS / "signatures.py"))["with_signatures"]
    for page in (DOCS / "reference").glob("*.md"):
        text = page.read_text("utf-8")
        assert write(text) == text, page.name
        assert "file-only" in text, page.name


def test_the_threat_model_names_tests_that_exist() -> None:
    """What a page on security promises is shown by a file of tests."""
    page = (DOCS / "security.md").read_text("utf-8")
    table = page.partition("## Who can do what")[2].partition("## ")[0]
    named = re.findall(r"`((?:\w+/)*test_\w+\.py)`", table)
    assert len(named) > 8
    assert [] == [name for name in named if not (ROOT / "tests" / name).exists()]
