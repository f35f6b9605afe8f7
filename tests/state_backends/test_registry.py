"""Backends are found by name: built in, registered as an entry point, or as module:attribute."""

import pytest

from state_backends import StateError, load_backend, resolve


def test_backend_by_entry_point(plugin: str) -> None:
    """A backend of an installed package is known by its entry point's name, also in messages."""
    assert plugin == load_backend("plugged").__module__
    with pytest.raises(ValueError, match=r"did you mean plugged.*missing.*plugged"):
        load_backend("pluged")


@pytest.mark.parametrize(
    "name",
    [
        "no_such_module_here:Backend",
        "state_backends.backends.memory:NoSuch",
        "state_backends.backends.memory:",
    ],
)
def test_backend_that_cannot_be_imported(name: str) -> None:
    """A backend that is named but cannot be imported is an error with its name and the cause."""
    with pytest.raises(StateError, match=f"state backend '{name}' .* cannot be imported: "):
        load_backend(name)


def test_entry_point_that_cannot_be_imported(plugin: str) -> None:
    """An entry point whose module is missing is an error with its name, its target and the cause."""
    with pytest.raises(
        StateError, match=rf"'missing' \({plugin}_not_there:Plugged\) cannot be imported: No module"
    ):
        resolve("missing")


@pytest.mark.parametrize("attribute", ["no_class", "NoBackend"])
def test_backend_that_is_none_is_refused(plugin: str, attribute: str) -> None:
    """What is no subclass of StateBackend is refused."""
    with pytest.raises(
        ValueError, match=f"'{plugin}:{attribute}' .* is not a subclass of state_backends.StateBackend"
    ):
        load_backend(f"{plugin}:{attribute}")
