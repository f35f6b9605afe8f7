"""The query of the page on features that pushes the newest row of each card, in a process of its own, once.

    python -m tests.faults.newest_rows FOLDER ADDRESS

runs the page's code as it is, in the folder, and pushes to the address. What has been written stays when it is run again.
"""

import os
import sys
from pathlib import Path
from typing import Any

from tests.docs.blocks import blocks

PAGE = Path(__file__).parents[2] / "docs" / "features.md"


def names(folder: Path) -> dict[str, Any]:
    """What the first block of the page defines: the session, the payments in the folder, and the operator."""
    os.chdir(folder)
    code, ends = next(blocks(PAGE)).code, "\nrows = "
    write = 'write.parquet("payments"'
    assert code.count(write) == code.count(ends) == 1
    found: dict[str, Any] = {}
    exec(code.partition(ends)[0].replace(write, f'{write}, mode="ignore"'), found)  # noqa: S102
    return found


def main(folder: Path, address: str) -> None:
    """Read the payments that have come, and stop."""
    (query,) = [
        block.code for block in blocks(PAGE) if "latest_by" in block.code and "foreachBatch" in block.code
    ]
    there = "http://localhost:6566"
    assert query.count(there) == 1
    exec(query.replace(there, address), names(folder))  # noqa: S102 - the documentation's own code


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
