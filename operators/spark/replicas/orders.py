"""What a process for state takes over from the worker that asks for it."""

import json
import os
import resource
import sys
from dataclasses import asdict, dataclass
from pathlib import Path

from operators.spark.replicas.parents import Parent

_LIMITS = [name for name in dir(resource) if name.startswith("RLIMIT_")]


@dataclass(frozen=True, slots=True)
class Order:
    """A request for a process for state.

    Attributes:
        name: the name of its socket.
        parent: the process with which it ends: its number, and when it began.
        folder: its working folder.
        path: where it looks for modules.
        environment: its variables.
        limits: soft and hard ones, by their names in `resource`.
    """

    name: str
    parent: tuple[str, str]
    folder: str
    path: list[str]
    environment: dict[str, str]
    limits: dict[str, tuple[int, int]]

    @classmethod
    def like_this_process(cls, parent: Parent, name: str) -> "Order":
        """Return the order for a process that has what this one has."""
        limits = {name: resource.getrlimit(getattr(resource, name)) for name in _LIMITS}
        return cls(name, parent.arguments, str(Path.cwd()), [*sys.path], dict(os.environ), limits)

    def encode(self) -> bytes:
        """Return it as bytes."""
        return json.dumps(asdict(self)).encode()

    @classmethod
    def decode(cls, data: bytes) -> "Order":
        """Return what was encoded.

        Raises:
            ValueError: it is something else.
            TypeError: it has other fields.
        """
        return cls(**json.loads(data))

    def take_over(self) -> None:
        """Have this process be like the one that asks.

        Raises:
            OSError: the folder is not there.
        """
        os.chdir(self.folder)
        sys.path[:] = self.path
        os.environ.clear()
        os.environ.update(self.environment)
        for name, (soft, hard) in self.limits.items():
            if resource.getrlimit(getattr(resource, name)) != (soft, hard):
                resource.setrlimit(getattr(resource, name), (soft, hard))
