"""What a sink for PostgreSQL is given, checked without a connection; no message shows a part of `conninfo`."""

import re

from operators.errors import DefinitionError
from operators.sinks.tables import BATCHES

_MOST_BYTES = 63
"""Of a name: PostgreSQL cuts longer ones, so that two can become one."""
_FORMS = "give 'host=db dbname=web user=writer', or postgresql://writer@db:5432/web"
_SCHEME = re.compile(r"\s*([A-Za-z][A-Za-z0-9+.-]*):")
_SCHEMES = ("postgresql", "postgres")
_URI = re.compile(
    r"""[a-z]+://
    (?:(?:[^@:/?\#\s%]|%[0-9A-Fa-f]{2})* (?::(?:[^@:/?\#\s%]|%[0-9A-Fa-f]{2})*)? @)?
    (?:\[[^]@/?\#]*\]|[^]\[@:/?\#\s]*) (?::\d*)? (?:,(?:\[[^]@/?\#]*\]|[^]\[@:/?\#\s,]*)(?::\d*)?)*
    (?:/[^@?\#]*)? (?:\?[^\#]*)?""",
    re.VERBOSE,
)
_PAIR = re.compile(r"\s*\w+\s*=\s*(?:'(?:[^'\\]|\\.)*'|(?:[^\s'\\]|\\.)(?:[^\s\\]|\\.)*)?(?=\s|$)", re.DOTALL)


def check_conninfo(conninfo: object) -> None:
    """Refuse what does not say how to connect to PostgreSQL.

    Raises:
        DefinitionError: says what is wrong, and shows nothing of it but the scheme.
    """
    if not isinstance(conninfo, str):
        raise DefinitionError(f"conninfo is of type {type(conninfo).__name__}, and must be text: {_FORMS}")
    scheme = _SCHEME.match(conninfo)
    if scheme is None:
        _check_pairs(conninfo)
    elif scheme[1].lower() == "jdbc":
        raise DefinitionError(f"conninfo begins with jdbc:, as the URLs of Java's drivers do: {_FORMS}")
    elif scheme[1] not in _SCHEMES:
        raise DefinitionError(f"conninfo begins with {scheme[1]}:, which is not PostgreSQL: {_FORMS}")
    elif not _URI.fullmatch(conninfo):
        raise DefinitionError(
            "conninfo is not a valid URI of the form postgresql://user:password@host:port/database. In the user and "
            "the password, write @ as %40, : as %3A, / as %2F, ? as %3F, # as %23 and % as %25"
        )


def _check_pairs(conninfo: str) -> None:
    end = 0
    while (pair := _PAIR.match(conninfo, end)) is not None:
        end = pair.end()
    if conninfo[end:].strip():
        raise DefinitionError(
            "conninfo is not of the form name=value name=value: write values with spaces in quotes, as in "
            f"password='two words', and a quote as \\'; {_FORMS}"
        )


def check_table(schema: object, table: object) -> None:
    """Refuse names of a schema and a table that PostgreSQL would not take as they are.

    Raises:
        DefinitionError: has the name, and what to write.
    """
    for what, name in (("schema", schema), ("table", table)):
        if not isinstance(name, str):
            raise DefinitionError(f"{what} takes a name, not {name!r}")
        if wrong := wrong_name(name):
            raise DefinitionError(f"{what} is {name!r}, which {wrong}")
    first, dot, rest = str(table).partition(".")
    if dot:
        raise DefinitionError(
            f"table is {table!r}: give the schema apart, as in PostgresSink(..., {rest!r}, schema={first!r})"
        )
    if table == BATCHES:
        raise DefinitionError(
            f"table is {table!r}, where the sink keeps the numbers of batches: give another name"
        )


def wrong_name(name: str) -> str | None:
    """Return why PostgreSQL does not take a name as it is, or None if it does."""
    if not name:
        return "is empty"
    if "\0" in name:
        return "has the character NUL"
    length = len(name.encode())
    return f"has {length} bytes: PostgreSQL cuts names after {_MOST_BYTES}" if length > _MOST_BYTES else None
