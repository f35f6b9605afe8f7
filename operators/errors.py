"""Errors that a user of the operators meets; each message names the thing and the way out."""

import re
from collections.abc import Iterable

_EXPRESSION = re.compile(r"[()+*/%<>=!]| - | (?:and|or|is|in|like) ", re.IGNORECASE)


class DefinitionError(ValueError):
    """An operator definition, or its use on a frame, that cannot work."""


class OperatorError(RuntimeError):
    """What an operator of one's own raised, or did that cannot be; the original error is its cause."""


class WorkerError(RuntimeError):
    """A batch that failed in a worker: names operator, bucket and batch, and what went wrong; its cause is the error itself."""


class SessionSetupError(RuntimeError):
    """A Spark session that lacks what a stateful streaming query needs."""


def names_told(wanted: str, there: Iterable[str]) -> str:
    """Return the names that there are, and the one that was probably meant, for the message about one that is missing."""
    from state_backends.registry import nearest

    names = list(there)
    close = nearest(wanted, names)
    return ", ".join(names) + ("" if close is None else f": did you mean {close!r}?")


def columns_told(wanted: str, there: Iterable[str]) -> str:
    """Return the columns that there are, and how the missing one is meant: a field, an expression, or another name."""
    names = list(there)
    struct = wanted.partition(".")[0]
    if struct in names:
        made = f"df.withColumn({wanted.replace('.', '_')!r}, F.col({wanted!r}))"
        hint = f": it is a field, make it a column before, such as with {made}"
    elif _EXPRESSION.search(wanted):
        made = f"df.withColumn('made', F.expr({wanted!r}))"
        hint = f": it is an expression, make it a column before, such as with {made}"
    else:
        return names_told(wanted, names)
    return ", ".join(names) + hint


def check_column_name(what: str, given: object) -> None:
    """Refuse what is no name of a column, such as a Spark expression.

    Args:
        what: begins the message.
        given: what should be a name.

    Raises:
        DefinitionError: says what was given and how an expression becomes a column.
    """
    if isinstance(given, list | tuple):
        raise DefinitionError(
            f"{what} takes names of columns, not {given!r}: give them one by one, as 'a', 'b'"
        )
    if not isinstance(given, str):
        raise DefinitionError(
            f"{what} takes names of columns, not {given!r}: make an expression a column before, with df.withColumn"
        )
