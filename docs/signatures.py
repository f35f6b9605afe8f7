"""Writes the signatures into the pages of the reference, for those who read them as files: `python docs/signatures.py`.

The site has each name's signature beside its description, and hides these.
"""
# ruff: noqa: INP001 - a script next to the pages

import inspect
import re
from collections.abc import Iterator
from html import escape
from pathlib import Path
from pydoc import locate
from textwrap import wrap
from typing import Any

REFERENCE = Path(__file__).parent / "reference"
BEGIN, END = '<pre class="file-only">\n', "</pre>\n"
_DIRECTIVE = re.compile(r"^::: (\S+)\n((?:    .*\n)*)", re.MULTILINE)
_MEMBERS = re.compile(r"^ +members: \[(.*)]$", re.MULTILINE)
_WIDTH = 120


def with_signatures(page: str) -> str:
    """Return a page of the reference with the signatures of what it describes behind its first heading."""
    head, _, rest = page.partition("\n\n")
    if rest.startswith(BEGIN):
        rest = rest.partition(END)[2].removeprefix("\n")
    lines = [line for found in _DIRECTIVE.finditer(rest) for line in _lines(found[1], found[2])]
    return f"{head}\n\n{BEGIN}{escape(chr(10).join(lines), quote=False)}\n{END}\n{rest}" if lines else page


def _lines(path: str, options: str) -> Iterator[str]:
    """The signatures of a name and of its members that the page describes."""
    thing: Any = locate(path)
    named = _MEMBERS.search(options)
    members = None if named is None else [name.strip() for name in named[1].split(",") if name.strip()]
    if inspect.ismodule(thing):
        for name in members if members is not None else thing.__all__:
            if members is not None or not name[0].isupper():
                yield from _signature(name, getattr(thing, name))
        return
    yield from _signature(path.rpartition(".")[2], thing)
    if inspect.isclass(thing):
        for name in members if members is not None else _public(thing):
            yield from _signature(f".{name}", inspect.getattr_static(thing, name, None), "    ")


def _public(thing: type) -> list[str]:
    """The methods that a class defines itself."""
    own = {name: getattr(one, "__func__", one) for name, one in vars(thing).items()}
    return [name for name, one in own.items() if not name.startswith("_") and callable(one)]


def _signature(name: str, thing: Any, indent: str = "") -> list[str]:
    """A name with its arguments and their defaults; the name alone for what has none."""
    thing = getattr(thing, "__func__", thing)
    if not callable(thing) or (inspect.isclass(thing) and issubclass(thing, BaseException)):
        return [indent + name]
    given = [one for one in inspect.signature(thing).parameters.values() if one.name not in ("self", "cls")]
    bare = inspect.Signature([one.replace(annotation=inspect.Parameter.empty) for one in given])
    text = name + re.sub("<[^>]*>", "...", str(bare))
    return wrap(text, _WIDTH, initial_indent=indent, subsequent_indent=f"{indent}        ")


if __name__ == "__main__":
    for path in sorted(REFERENCE.glob("*.md")):
        path.write_text(with_signatures(path.read_text("utf-8")), "utf-8")
