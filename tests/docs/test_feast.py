"""The section on Feast of the page on features runs against the real package, which has an environment of its own."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.blocks import blocks
from tests.docs.feast_server import MissingError, running_server

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "features.md"
_PROGRAM = """
from pathlib import Path
from dataclasses import replace
from tests.docs.blocks import blocks
from tests.docs.test_code import run

names = {"__name__": "__main__"}
page = list(blocks(Path(PAGE)))
run(page[0], names)
recipe = [block for block in page if "feast_push" in block.code]
assert len(recipe) == 2
for block in recipe:
    run(replace(block, code=block.code.replace("http://localhost:6566", ADDRESS)), names)
"""


@pytest.mark.connectors
def test_the_newest_rows_are_read_from_feast(tmp_path: Path) -> None:
    """Definitions, query and answers as the page has them, but for the address; an older row changes no answer."""
    repository = tmp_path / "repository"
    repository.mkdir()
    text = PAGE.read_text("utf-8")
    (settings,) = re.findall(r"```yaml title=\"feature_store.yaml\"\n(.*?)```", text, re.DOTALL)
    (definitions,) = [block.code for block in blocks(PAGE) if "PushSource" in block.code]
    (repository / "feature_store.yaml").write_text(settings)
    (repository / "definitions.py").write_text(definitions)
    try:
        with running_server(repository, tmp_path / "log") as address:
            (tmp_path / "run").mkdir()
            done = subprocess.run(
                [sys.executable, "-c", f"PAGE, ADDRESS = {str(PAGE)!r}, {address!r}\n{_PROGRAM}"],
                env={**os.environ, "PYTHONPATH": str(ROOT)},
                cwd=tmp_path / "run",
                capture_output=True,
                text=True,
                check=False,
            )
            assert 0 == done.returncode, done.stderr[-4_000:]
    except MissingError as error:
        pytest.skip(str(error))
