"""The keys of an operator: columns of its frame, and the names that they have in the result."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from operators.columns.checks import check_column_name, refuse_twice
from operators.columns.expressions import named
from operators.errors import DefinitionError

if TYPE_CHECKING:
    from pyspark.sql import Column

Typed = tuple[tuple[str, pa.DataType], ...]


def key_columns(columns: "Sequence[str | Column]") -> tuple[str, ...]:
    """Return what is given to `group_by`: names, and expressions.

    Raises:
        DefinitionError: one of them is neither, or occurs twice.
    """
    keys = tuple(map(named, columns))
    for key in keys:
        check_column_name("group_by", key)
    refuse_twice("key column", keys)
    return keys


def named_keys(keys: Typed, names: Sequence[str]) -> Typed:
    """Return key columns as they come out: with these names, if there are any."""
    types = [type_ for _, type_ in keys]
    return tuple(zip(names, types, strict=True)) if names else keys


def check_same_keys(frames: Sequence[str], names: Sequence[Sequence[str]]) -> None:
    """Refuse frames whose keys come out under different names.

    Raises:
        DefinitionError: names the frames and the keys.
    """
    for frame, keys in zip(frames, names, strict=True):
        if list(keys) != list(names[0]):
            raise DefinitionError(
                f"the keys are named {', '.join(names[0])} in {frames[0]}, but {', '.join(keys)} in {frame}: "
                "give each expression an alias"
            )
