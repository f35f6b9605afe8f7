"""What all tests of the suite share: the backend under test, opened in a new directory."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import ClassVar

from state_backends.interface import StateBackend

try:
    import pytest
except ImportError as missing:
    raise ImportError("the contract suite of state backends needs pytest: install pytest") from missing


class Contract:
    """The backend under test; `BackendContract` describes the attributes."""

    backend_class: ClassVar[type[StateBackend]]
    options: ClassVar[Mapping[str, str]] = {}
    steps: ClassVar[int] = 200
    seed: ClassVar[int | None] = None
    kills: ClassVar[int] = 60
    refused: ClassVar[Sequence[Mapping[str, str]] | None] = None

    def open(self, directory: Path) -> StateBackend:
        """Open the backend under test."""
        return self.backend_class.open(directory, self.options)

    @pytest.fixture
    def directory(self, tmp_path: Path) -> Path:
        """A directory that does not exist yet."""
        return tmp_path / "a" / "store"

    @pytest.fixture
    def backend(self, directory: Path) -> Iterator[StateBackend]:
        """A new, empty store."""
        backend = self.open(directory)
        yield backend
        backend.close()
