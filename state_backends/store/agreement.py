"""What memory knows of pages must agree with them: tests call `check` of each structure between batches."""

from typing import Any


def agree(what: str, known: Any, found: Any) -> None:
    """Raise if memory and pages do not agree.

    Args:
        what: is compared.
        known: what memory has.
        found: what follows from the pages.

    Raises:
        AssertionError: says what differs.
    """
    if known != found:
        raise AssertionError(f"{what}: memory has {known!r}, the pages have {found!r}")
