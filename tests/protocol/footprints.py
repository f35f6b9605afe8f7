"""Footprints: what a step has read and changed. Two steps whose footprints do not meet may change places."""

from functools import cache


class Footprint:
    """What one step reads and changes, as sets of names in the bits of two numbers.

    Steps meet if one changes what the other one reads. Whoever depends on what it changes reads it, too: two that only change
    the same name, as two files in one folder, may change places.
    """

    def __init__(self) -> None:
        self.reads = self.changes = 0

    def clear(self) -> None:
        """Begin a new step. All steps meet those that change everything."""
        self.reads, self.changes = _bit("*"), 0

    def read(self, *names: str) -> None:
        """The step depends on these."""
        for name in names:
            self.reads |= _bit(name)

    def change(self, *names: str) -> None:
        """The step alters these."""
        for name in names:
            self.changes |= _bit(name)

    def use(self, *names: str) -> None:
        """The step depends on these, and alters them."""
        self.read(*names)
        self.change(*names)

    def everything(self) -> None:
        """The step changes places with no other."""
        self.use("*")


@cache
def _bit(name: str) -> int:
    _names.append(name)
    return 1 << (len(_names) - 1)


_names: list[str] = []
