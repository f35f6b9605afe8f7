"""What versions.md says works together is what a run of its script finds."""

import runpy
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"


@pytest.mark.slow
def test_what_works_together_is_what_is_found() -> None:
    """What becomes possible, or is refused with another message, changes the page: `python docs/support.py` writes it again."""
    assert runpy.run_path(str(DOCS / "support.py"))["page"]() == (DOCS / "versions.md").read_text("utf-8")
