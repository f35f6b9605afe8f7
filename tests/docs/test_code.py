"""What the documentation shows runs, and prints what it shows.

The blocks of a page run from top to bottom in one namespace, in an empty folder. A block behind `<!-- not run: why -->` is
only compiled. A block of `text` right behind one of Python is what that one prints. A page whose code speaks of a frame or a
checkpoint that the reader has anyway gets it from the function `names` of `setup/<page>.py`.
"""

import io
import runpy
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.docs.blocks import Block, blocks
from tests.effort import slow_but

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
README, INDEX = ROOT / "README.md", ROOT / "docs" / "index.md"
KAFKA = ROOT / "docs" / "kafka.md"
"""Needs a broker: test_kafka_page.py runs it."""
LAKE = ROOT / "docs" / "lake-tables.md"
"""Needs jars: tests/lake/test_page.py runs it."""
PAGES = [README, *sorted({*(ROOT / "docs").rglob("*.md")} - {INDEX, KAFKA, LAKE})]
WITH_CODE = [str(page.relative_to(ROOT)) for page in PAGES if any(blocks(page))]


def run(block: Block, names: dict[str, Any]) -> None:
    """Run a block, and compare what it prints."""
    printed = io.StringIO()
    with redirect_stdout(printed):
        exec(block.compiled(), names)  # noqa: S102 - the documentation's own code
    if block.output is not None:
        assert trimmed(block.output) == trimmed(printed.getvalue()), (
            f"{block.page.name}, line {block.line}:\n{printed.getvalue()}"
        )


def trimmed(text: str) -> list[str]:
    """The lines without blanks at their ends, and without empty lines before and after them."""
    return [line.rstrip() for line in text.strip("\n").splitlines()]


def given(page: Path, spark: SparkSession) -> dict[str, Any]:
    """The names that a page's reader has."""
    setup = HERE / "setup" / f"{page.stem.lower().replace('-', '_')}.py"
    return runpy.run_path(str(setup))["names"](spark) if setup.exists() else {}


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.parametrize("page", slow_but(["README.md"], WITH_CODE))
def test_code_runs_and_prints_what_the_page_shows(page: str, spark: SparkSession) -> None:
    """Each block works with what the blocks above it have left."""
    names = {"__name__": "__main__", **given(ROOT / page, spark)}
    for block in blocks(ROOT / page):
        if block.reason is None:
            run(block, names)
        else:
            assert block.reason, f"{page}, line {block.line}: say why it is not run"
            block.compiled()


def test_the_first_page_begins_as_the_readme() -> None:
    """The code that README runs, and its output, are also what a reader of the pages sees first."""
    first_screen = README.read_text("utf-8").partition("## Install")[0]
    assert first_screen.count("```python") == 2
    assert INDEX.read_text("utf-8").startswith(first_screen)


def test_blocks_are_found_with_their_output_and_reason(tmp_path: Path) -> None:
    """Also in the tabs of a page, which are indented."""
    page = tmp_path / "page.md"
    page.write_text(
        "# Title\n\n```python\nprint(1)\n```\n\n```text\n1\n```\n\nWords.\n\n"
        '<!-- not run: wants a cluster -->\n```python\nrun()\n```\n\n=== "Tab"\n\n'
        '    ```python title="x"\n    if 1:\n        pass\n    ```\n\n```text\nno output\n```\n'
    )
    assert [
        Block(page, 4, "print(1)\n", "1\n", None),
        Block(page, 15, "run()\n", None, "wants a cluster"),
        Block(page, 21, "if 1:\n    pass\n", None, None),
    ] == list(blocks(page))


def test_output_that_differs_is_told(tmp_path: Path) -> None:
    """A page that shows something else than what is printed fails."""
    block = Block(tmp_path / "page.md", 1, "print(2)", "1", None)
    with pytest.raises(AssertionError, match=r"page\.md, line 1"):
        run(block, {})
