"""Which tests of sinks are slow."""

import pytest


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What kills processes takes long; the rest of the contract is fast."""
    for item in items:
        if item.name.startswith("test_a_killed_writer") and "sinks" in item.path.parts:
            item.add_marker(pytest.mark.slow)
            item.add_marker(pytest.mark.kill)
