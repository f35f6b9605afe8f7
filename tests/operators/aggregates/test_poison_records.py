"""The error of a function names the record that it cannot take: its key, its event time and what the function got of it."""

from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from operators import KeyedOperator, OperatorError, RollingWindows, SessionWindows, TumblingWindows
from operators import aggregates as agg
from operators.aggregates import AggregateError, AggregateOperation
from operators.columns.record_text import record_text
from operators.custom.contract import Declaration

START = datetime(2026, 1, 5, 9, tzinfo=timezone.utc)
POISON = 13
WINDOWS: dict[str, Any] = {
    "tumbling": TumblingWindows("1 hour"),
    "session": SessionWindows("5 minutes"),
    "rolling": RollingWindows("1 hour"),
}


def records(rows: int = 40) -> pa.Table:
    """Records of three keys, a minute apart; the value of one of them is no number."""
    values = [f"{n}" for n in range(rows)]
    values[POISON] = "thirteen"
    return pa.table(
        {
            "card": [f"card {n % 3}" for n in range(rows)],
            "at": pa.array([START + timedelta(minutes=n) for n in range(rows)], pa.timestamp("us", "UTC")),
            "amount": values,
        }
    )


def error_of(operator: Any, table: pa.Table) -> str:
    """What the operator's function raises for the table."""
    with operator.local_runner("at") as runner, pytest.raises((AggregateError, OperatorError)) as caught:
        runner.process(table, stream_time=START + timedelta(days=1))
    return str(caught.value)


def summing(merge: Callable[[int, int], int] | None) -> Any:
    """A fold that reads numbers."""
    return agg.fold(0, lambda total, text: total + int(text), "amount", type="bigint", merge=merge)


@pytest.mark.parametrize(
    ("kind", "merges"),
    [("tumbling", True), ("tumbling", False), ("session", True), ("rolling", True), ("rolling", False)],
)
def test_a_fold_names_the_record(kind: str, merges: bool) -> None:
    """In all windows that it can be in; of a record that was stored before, its values and the window are known."""
    fold = summing((lambda a, b: a + b) if merges else None)
    said = error_of(WINDOWS[kind].group_by("card").aggregate(total=fold), records())
    assert "add raised ValueError: invalid literal for int() with base 10: 'thirteen'" in said
    stored = kind == "rolling" and not merges
    at = "" if stored else "card='card 1', event time 2026-01-05T09:13:00+00:00, "
    window = ". The window: card='card 1', event time 2026-01-05T09:13:00+00:00" if stored else ""
    assert said.endswith(f". The record: {at}amount='thirteen'{window}")


def test_an_operation_on_columns_names_the_first_record_that_it_cannot_take() -> None:
    """Found by halves, also where records that do not count are left out."""

    def accumulate(state: Any, amounts: Any) -> Any:
        return (state[0] + np.array([int(text) for text in amounts], np.int64),)

    total = AggregateOperation(
        "total", (int,), lambda: (0,), accumulate, lambda a, b: (a[0] + b[0],), lambda s: s[0], "bigint"
    )
    table = records()
    op = TumblingWindows("1 hour").group_by("card").aggregate(total=total("amount"))
    expected = ". The record: card='card 1', event time 2026-01-05T09:13:00+00:00, amount='thirteen'"
    assert error_of(op, table).endswith(expected)
    amounts = pa.array([None if n % 4 == 2 else text for n, text in enumerate(table["amount"].to_pylist())])
    assert error_of(op, table.set_column(2, "amount", amounts)).endswith(expected)


class Level(KeyedOperator):
    """Fails for a record, or for the timer that a record sets."""

    def schema(self, types: Any) -> Declaration:
        return Declaration(inputs=["amount"], results={"level": "bigint"})

    def process(self, time: int, record: dict[str, Any], context: Any) -> Any:
        if record["amount"] == "thirteen":
            if context.key["card"] == "card 0":
                context.set_timer(time + 1)
                return
            int(record["amount"])
        yield {"level": 1}

    def on_timer(self, time: int, name: str, context: Any) -> Any:
        raise LookupError("no level")


def test_an_operator_for_one_key_names_it_and_the_record() -> None:
    """Of a timer there is no record."""
    said = error_of(Level().group_by("card"), records())
    assert "Level.process at event time" in said
    assert said.endswith(". The record: card='card 1', amount='thirteen'")
    table = records()
    said = error_of(Level().group_by("card"), table.set_column(0, "card", pa.array(["card 0"] * len(table))))
    assert "Level.on_timer at event time" in said
    assert said.endswith("failed: LookupError: no level. The key: card='card 0'")


def test_what_is_said_of_a_record_has_a_limit() -> None:
    """Long texts are cut, many columns counted; a value that cannot be shown stops nothing."""

    class Odd:
        def __repr__(self) -> str:
            raise RuntimeError

    values = {"text": "x" * 10_000, "odd": Odd(), **{f"column {n}": list(range(1_000)) for n in range(50)}}
    said = record_text({"k": "y" * 10_000}, 2**62, values)
    assert "event time 4611686018427387904 us since 1970" in said
    assert said.endswith("and 40 more columns")
    assert len(said) < 1_500
