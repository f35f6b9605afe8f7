"""The Python of a Markdown page: its blocks in order, and what the page says that they print."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from textwrap import dedent

# A comment that tells why the block after it is not run, a fence of Python, and the fence of text right behind it.
_BLOCK = re.compile(
    r"(?:^[ ]*<!-- not run:(?P<reason>[^>]*)-->\n\s*)?"
    r"^(?P<indent>[ ]*)```python[^\n]*\n(?P<code>.*?)^(?P=indent)```[ ]*\n"
    r"(?:\s*^(?P=indent)```text[^\n]*\n(?P<output>.*?)^(?P=indent)```[ ]*$)?",
    re.MULTILINE | re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class Block:
    """A block of Python.

    Attributes:
        page: the file that it is in.
        line: number of its first line there.
        code: the text.
        output: what the page shows as printed, or None if it shows nothing.
        reason: why it is not run, or None if it is.
    """

    page: Path
    line: int
    code: str
    output: str | None
    reason: str | None

    def compiled(self):
        """Return the code, with the page's own line numbers in tracebacks."""
        return compile("\n" * (self.line - 1) + self.code, str(self.page), "exec")


def blocks(page: Path) -> Iterator[Block]:
    """Yield the blocks of a page from top to bottom."""
    text = page.read_text("utf-8")
    for found in _BLOCK.finditer(text):
        output, reason = found["output"], found["reason"]
        yield Block(
            page,
            text.count("\n", 0, found.start("code")) + 1,
            dedent(found["code"]),
            None if output is None else dedent(output),
            None if reason is None else reason.strip(),
        )
