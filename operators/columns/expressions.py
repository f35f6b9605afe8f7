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
        expression = super().__new__(cls, repr(column))
        object.__setattr__(expression, "column", column)
        return expression

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"{name} of an expression cannot be set")

    def __deepcopy__(self, memo: object) -> "Expression":
        """Return the expression itself: it never changes."""
        return self

    def __repr__(self) -> str:
        return str(self)


def is_column(value: object) -> "TypeGuard[Column]":
    """Return whether this is a Column of Spark, classic or of Spark Connect."""
    kind = type(value)
    return kind.__name__ == "Column" and kind.__module__.startswith("pyspark.")


@overload
def named(column: "str | Column") -> str: ...
@overload
def named(column: "str | Column | None") -> str | None: ...
def named(column: Any) -> Any:
    """Return a Column as an `Expression`, and anything else as it is."""
    return Expression(column) if is_column(column) else column


def refuse_expressions(arguments: Iterable[tuple[str, object]]) -> None:
    """Refuse Columns where there is no Spark.

    Args:
        arguments: what is given for columns: the argument, and the name or Column.

    Raises:
        DefinitionError: names the argument, and says how the Column becomes a column of the table.
    """
    for argument, name in arguments:
        if isinstance(name, Expression) or is_column(name):
            raise DefinitionError(
                f"{argument} is the Spark expression {name!r}, which cannot be evaluated without Spark: "
                "add a column to the table, and give its name"
            )
