"""What the project says of versions is what the page shows, and the page says what pytest reported."""

import re
from pathlib import Path

import pytest

from tests.versions import page
from tests.versions.environments import ALL, FIRST_PYTHON, PYTHONS, ROOT, Environment
from tests.versions.parts import PARTS, WITH_FORMAT_2
from tests.versions.running import Result, kept, outcomes

PROJECT = (ROOT / "pyproject.toml").read_text("utf-8")
REPORT = """<testsuites><testsuite>
<testcase classname="tests.a.test_b" name="test_c[x]"/>
<testcase classname="tests.a.test_b" name="test_cc"><failure message="no"/></testcase>
<testcase classname="tests.a.test_d" name="test_e"><skipped message="no server"/></testcase>
<testcase classname="tests.a.test_d" name="test_f"><skipped message="no server"/></testcase>
</testsuite></testsuites>"""
SHOWN = {
    "one test": ["tests/a/test_b.py::test_c"],
    "a file": ["tests/a/test_b.py"],
    "another": ["tests/a/test_d.py"],
}


def test_environments_are_those_that_the_project_admits() -> None:
    """Each version of PySpark between the bounds, and each Python that is named, was run or is listed as not tested."""
    least, below = re.search(r'"pyspark>=4\.(\d+),<4\.(\d+)"', PROJECT).groups()
    assert [f"4.{minor}" for minor in range(int(least), int(below))] == list(FIRST_PYTHON)
    assert re.findall(r"Python :: (3\.\d+)", PROJECT) == list(PYTHONS)
    shown = re.findall(r"(4\.\d+) on (3\.\d+)", page.PAGE.read_text("utf-8").partition(page.BEGIN)[2])
    assert {(environment.pyspark, environment.python) for environment in ALL} == set(shown)


def test_the_page_shows_what_was_found() -> None:
    """It has the tables of the last results, and each version of PySpark and of Python passed in one of them."""
    results = kept()
    assert page.tables(results).strip() == page.PAGE.read_text("utf-8").partition(page.BEGIN)[2].strip()
    assert all(result.is_good for result in results.values())
    assert set(FIRST_PYTHON) == {environment.pyspark for environment in results}
    assert set(PYTHONS) == {environment.python for environment in results}


def test_chosen_tests_exist() -> None:
    """A test that was renamed is missed here, before hours of others."""
    for node in {node for nodes in [*PARTS.values(), *WITH_FORMAT_2.values()] for node in nodes}:
        file, _, name = node.partition("::")
        assert f"def {name}" in (ROOT / file).read_text("utf-8"), node


def test_outcomes_are_those_of_the_report(tmp_path: Path) -> None:
    """Tests count for their part, and every reason comes once."""
    (tmp_path / "report.xml").write_text(REPORT)
    one, file, other = outcomes(tmp_path / "report.xml", SHOWN).values()
    assert (1, []) == (one.passed, one.failed)
    assert (1, ["tests.a.test_b::test_cc"]) == (file.passed, file.failed)
    assert (0, ["no server"]) == (other.passed, other.skipped)


def test_results_are_kept_and_shown(tmp_path: Path) -> None:
    """A result is read as it was written, and its tables say what failed, what was skipped and what was not tested."""
    (tmp_path / "report.xml").write_text(REPORT)
    versions = dict.fromkeys(("pyspark", "python", "pyarrow", "pandas", "numpy", "protobuf"), "1.2")
    names = list(PARTS)[:3]
    found = outcomes(tmp_path / "report.xml", dict(zip(names, SHOWN.values(), strict=True)))
    result = Result(versions, "2026-01-05", 3.4, found)
    ran, missing = Environment.of("4.0/3.10/lowest"), Environment.of("4.1/3.10")
    result.write(ran, tmp_path)
    assert {ran: result} == kept(tmp_path)
    assert [True, False, True] == [result.is_good_in(name) for name in names]
    assert not result.is_good
    results = {ran: result, missing: Result({}, "2026-01-05", missing="no Python")}
    tables = page.tables(results)
    assert "| 4.0 on 3.10, lowest | 1.2 | 1.2 |" in tables
    assert "| 2026-01-05 | 2, **1 failed** |" in tables
    assert f"| {names[0]} | 1 |\n| {names[1]} | **1 failed** |\n| {names[2]} | skipped |" in page.report(
        results
    )
    assert "- 4.0 on 3.10, lowest: no server" in tables
    assert "Not tested: 4.0 on 3.10, 4.0 on 3.11, " in tables
    assert "4.1 on 3.10, " in tables


@pytest.mark.slow
@pytest.mark.parametrize("text", ["4.3/3.10", "3.5/3.11", "4.0", "4.0/3.10/newest"])
def test_what_does_not_go_together_is_refused(text: str) -> None:
    """Of environments that there are not."""
    with pytest.raises(ValueError, match=text if text != "4.0" else "not enough"):
        Environment.of(text)
