"""Columns of Spark as columns of a frame, under names that are the same after a restart."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name that every Spark user knows

from operators.columns.expressions import Expression
from operators.errors import DefinitionError
from operators.spark.base.inside import (
    GENERATOR,
    NESTED_AGGREGATE,
    NOT_DETERMINISTIC,
    WINDOW_FUNCTION,
    expression_text,
    first_words,
    has_condition,
)
from operators.spark.base.logs import unlogged
from operators.spark.base.quoting import quote

Input = tuple[str, str]
"""What is given for a column: the argument, and the name or expression."""
_SUFFIXES = {"group_by": " (key)", "event_time": " (event time)", "label_time": " (event time)"}
"""What makes a name unique, by argument, if a column has it already. State does not depend on these names."""
_REASONS = {
    NESTED_AGGREGATE: "is an aggregate of pyspark.sql.functions: give what it reads, as in agg.sum('v')",
    NOT_DETERMINISTIC: (
        "is not deterministic, so that a batch that runs again would have other values: use a column of the source"
    ),
    GENERATOR: "makes several rows of one: make it a column first, with df.select",
    WINDOW_FUNCTION: "has a window function of Spark: make it a column first, with df.withColumn",
}
"""What is wrong with an expression, by the beginning of the condition of Spark's error."""


@dataclass(frozen=True, slots=True)
class ExpressionFrame:
    """A frame with expressions as columns.

    Attributes:
        df: the frame.
        keys: its key columns.
        key_names: their names in the result; none without expressions.
        names: the column that each expression has become, by the id of the Column.
    """

    df: DataFrame
    keys: tuple[str, ...]
    key_names: tuple[str, ...]
    names: Mapping[int, str]

    def name(self, column: str) -> str:
        """Return the column that a name or expression stands for."""
        return self.names[id(column.column)] if isinstance(column, Expression) else column


@dataclass(frozen=True, slots=True)
class _Analysed:
    """An expression as Spark reads it.

    Attributes:
        argument: which one it was given for.
        column: as given.
        text: as Spark prints it.
        result: the name that `df.select` and `df.groupBy` give it.
    """

    argument: str
    column: Column
    text: str
    result: str

    @property
    def name(self) -> str:
        """Its alias, or its text. The name in a result lacks casts, and what a field is of."""
        is_key = self.argument == "group_by"
        return self.result if is_key or self.text.endswith(f" AS {self.result}") else self.text


def with_expression_columns(
    df: DataFrame, keys: Sequence[str], others: Sequence[Input], taken: Collection[str] = ()
) -> ExpressionFrame:
    """Return a frame with the expressions among its keys and other inputs as columns.

    The result column of a key has the name that `df.groupBy` gives it: its alias, or its text as Spark prints it. Other inputs
    have such names as well, since stored state depends on them. An expression that is a column and nothing more is that column.

    Args:
        df: the frame.
        keys: names and expressions.
        others: the other inputs.
        taken: columns of other frames that are to have the same key columns.

    Raises:
        DefinitionError: Spark cannot resolve an expression, it has other values when it is computed again, or another column
            has its name; names the argument.

    Cost: two analyses of the frame if there are expressions, and one for each that is given twice.
    """
    inputs = [*(("group_by", key) for key in keys), *others]
    expressions: dict[int, tuple[str, Expression]] = {}
    for argument, one in inputs:
        if isinstance(one, Expression):
            expressions.setdefault(id(one.column), (argument, one))
    if not expressions:
        return ExpressionFrame(df, tuple(keys), (), {})
    columns = _Columns(df, _lower(df.columns), _lower(taken))
    results = {id(one.column): columns.add(one) for one in _analyse(df, list(expressions.values()))}
    frame = df.select("*", *(one.column.alias(name) for name, one in columns.expressions.items()))
    found = ExpressionFrame(frame, (), (), columns.names)
    key_names = tuple(results[id(key.column)] if isinstance(key, Expression) else key for key in keys)
    return replace(found, keys=tuple(map(found.name, keys)), key_names=key_names)


def check_expression(df: DataFrame, argument: str, column: Column) -> None:
    """Refuse an expression that is no value of each row of a frame.

    Raises:
        DefinitionError: Spark cannot resolve it, or it has other values when it is computed again; names the argument.
    """
    list(_analyse(df, [(argument, Expression(column))]))


@dataclass(slots=True)
class _Columns:
    """The columns that expressions become.

    Attributes:
        df: the frame without them.
        taken: names that other columns have, in lower case.
        elsewhere: those that columns of other frames have.
        names: the column of each expression, by the id of the Column.
        expressions: the expressions by the name of the column that is made of them.
    """

    df: DataFrame
    taken: set[str]
    elsewhere: set[str]
    names: dict[int, str] = field(default_factory=dict)
    expressions: dict[str, _Analysed] = field(default_factory=dict)

    def add(self, one: _Analysed) -> str:
        """Choose the column of an expression, and return its name in a result.

        Raises:
            DefinitionError: another column has its name.
        """
        own = self._own(one)
        self.names[id(one.column)] = self._column_name(one) if own is None else own
        return one.result if own is None else own

    def _own(self, one: _Analysed) -> str | None:
        """The column of the frame that an expression is and nothing more, or None."""
        alike = [name for name in self.df.columns if name.casefold() == one.text.casefold()]
        if one.text != one.result or not alike:
            return None
        name = one.text if one.text in alike else alike[0]
        return name if self._same(one.column, F.col(quote(name))) else None  # It may be a literal.

    def _column_name(self, one: _Analysed) -> str:
        name = one.name
        known = self.expressions.get(name)
        if known is not None and self._same(known.column, one.column):
            return name
        if name.casefold() in self.taken and one.argument not in _SUFFIXES:
            raise DefinitionError(
                f"{one.argument}: the expression {one.text} is named {name!r}, which another column or expression is as well: "
                "give it an alias of its own, as in F.lower('name').alias('lower_name')"
            )
        while one.argument in _SUFFIXES and name.casefold() in self.taken | self.elsewhere:
            name += _SUFFIXES[one.argument]
        self.taken.add(name.casefold())
        self.expressions[name] = one
        return name

    def _same(self, one: Column, other: Column) -> bool:
        """Whether two expressions are the same, whatever their aliases."""
        alike = [self.df.select(column.alias("same")) for column in (one, other)]
        return alike[0].sameSemantics(alike[1])


def _lower(names: Collection[str]) -> set[str]:
    """Names in lower case: Spark takes those that differ in case only as one."""
    return {name.casefold() for name in names}


def _analyse(df: DataFrame, inputs: Sequence[tuple[str, Expression]]) -> Iterator[_Analysed]:
    """Expressions as Spark reads them.

    Raises:
        DefinitionError: one of them is no value of each row.
    """
    columns = [one.column for _, one in inputs]
    try:
        with unlogged():
            # What an aggregate of Spark takes is one value of each row, and the same each time.
            texts = df.select(*map(F.count, columns)).columns
            results = df.select("*", *columns).columns[len(df.columns) :]
    except AnalysisException as error:
        for one in inputs if len(inputs) > 1 else ():
            list(_analyse(df, [one]))
        argument, expression = inputs[0]
        raise DefinitionError(f"{argument}: {expression!r} {_reason(error)}") from error
    if len(results) != len(columns):
        raise DefinitionError(
            f"{', '.join(what for what, _ in inputs)}: one of the expressions stands for several columns"
        )
    for (argument, expression), text, result in zip(inputs, texts, results, strict=True):
        yield _Analysed(argument, expression.column, expression_text(text), result)


def _reason(error: AnalysisException) -> str:
    known = (reason for condition, reason in _REASONS.items() if has_condition(error, condition))
    return next(known, f"cannot be resolved: {first_words(error)}")
