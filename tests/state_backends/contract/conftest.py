"""Which tests of the contract suite are slow here, or left to the soak: those that kill many processes or fill a disk."""

import pytest

LONG = {"test_killed_at_any_line", "test_killed_at_any_moment", "test_error_at_any_line", "test_full_disk"}
SOAKED = {"TestRocksDB": "test_killed_at_any_line", "TestJournal": "test_error_at_any_line"}
"""The longest ones; each is slow on another backend."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark them; dictionaries have nothing that a kill can leave, and are quick."""
    for item in items:
        suite = getattr(item, "cls", None)
        named = suite.__name__ if suite is not None else ""
        if item.name in LONG and named != "TestMemory":
            item.add_marker(pytest.mark.soak if item.name == SOAKED.get(named) else pytest.mark.slow)
