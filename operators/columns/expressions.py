"""Spark Columns in place of column names. Nothing of Spark is imported: without Spark, there are none."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, TypeGuard, TypeVar, overload

from operators.errors import DefinitionError

if TYPE_CHECKING:
    from pyspark.sql import Column

_Other = TypeVar("_Other")


class Expression(str):
    """A Spark Column that stands where a column's name will: `apply` makes it a column of the frame, and puts that name here.

    As text it is the Column as Spark shows it, by which it is compared: Columns themselves have no `==` that is true or false.

    Attributes:
        column: the Column.
    """

    __slots__ = ("column",)
    column: "Column"

    def __new__(cls, column: "Column") -> "Expression":
        """Return what stands for a Column."""
        made = super().__new__(cls, repr(column))
        object.__setattr__(made, "column", column)
        return made

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"{name} of an expression cannot be set")

    def __deepcopy__(self, memo: object) -> "Expression":
        """Return the expression itself: it never changes."""
        return self

    def __repr__(self) -> str:
        return str(self)


def is_column(given: object) -> "TypeGuard[Column]":
    """Return whether this is a Column of Spark, classic or of Spark Connect."""
    kind = type(given)
    return kind.__name__ == "Column" and kind.__module__.startswith("pyspark.")


@overload
def named(given: "str | Column") -> str: ...
@overload
def named(given: "str | Column | None") -> str | None: ...
def named(given: Any) -> Any:
    """Return a Column as an `Expression`, and anything else as it is."""
    return Expression(given) if is_column(given) else given


def refuse_expressions(given: Iterable[tuple[str, object]]) -> None:
    """Refuse Columns where there is no Spark.

    Args:
        given: what is given for columns: the argument, and the name or Column.

    Raises:
        DefinitionError: names the argument, and says how the Column becomes a column of the table.
    """
    for argument, name in given:
        if isinstance(name, Expression) or is_column(name):
            raise DefinitionError(
                f"{argument} is the Spark expression {name!r}, which cannot be evaluated without Spark: "
                "add a column to the table, and give its name"
            )
