"""What an operator is, in words, from what its state depends on."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from operators.aggregates.state_words import in_words, listed
from operators.columns.duration_text import length
from operators.command.text.formats import printable
from operators.kinds.rolling import LASTING
from operators.runtime.identity import STATE
from state_backends.store.schema import StoredSchema

_EMISSIONS = {
    "on_close": "each window once, when it is closed",
    "on_update": "after each batch, the windows that it changed",
    "on_arrival": "each record in the batch in which it came",
}
_ROLLING_ON_CLOSE = "each record once, when its windows are closed"
_BY_FOLD = " by fold"
_EPOCH, _FIRST_MONDAY = "1970-01-01", "1970-01-05"
_WEEK_DAYS = 7
_PERIODS = {"1 day": "day", "7 days": "week", "1 month": "month", "3 months": "quarter", "1 year": "year"}
"""Periods that windows go back to the begin of, by their lengths."""


def title(identity: Mapping[str, Any]) -> str:
    """Return the kind and the lengths of an operator's windows, such as "hopping windows of 1 h every 5 min"."""
    return printable(_title(identity))


def _title(identity: Mapping[str, Any]) -> str:
    if "operator" in identity:
        return f"custom operator {identity['operator']}, version {identity.get('version')}"
    kind = str(identity.get("windows", "")).removesuffix(_BY_FOLD)
    describe = {
        "hopping": _hopping,
        "calendar hopping": _calendar,
        "sliding": _sliding,
        "session": _session,
        "rolling": _rolling,
    }.get(kind)
    return describe(identity) if describe else f"{kind or 'unknown'} windows"


def facts(identity: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield what else an operator is: names and texts."""
    yield "keys", _list(identity.get("grouped by")) or "none: all records are one group"
    if "emission" in identity:
        rolling = identity.get("windows") == "rolling" and identity["emission"] == "on_close"
        yield (
            "emits",
            _ROLLING_ON_CLOSE if rolling else _EMISSIONS.get(identity["emission"], str(identity["emission"])),
        )
    if str(identity.get("windows", "")).endswith(_BY_FOLD):
        yield "stores", "windows, since a fold has no merge"
    if "settings" in identity:
        yield (
            "settings",
            _list(f"{name} = {value!r}" for name, value in identity["settings"].items()) or "none",
        )
    if identity.get("inputs"):
        yield "keeps", f"records' columns {_list(identity['inputs'])}"
    yield "reads", _list(identity.get("columns")) or "key and event time only"


def states_of(schema: StoredSchema) -> Iterator[tuple[str, str]]:
    """Yield the results by name with the states that they are made from, and the states that no result is made from."""
    names = [state.name for state in schema.states]
    results = [f"{name} from {listed(names[at] for at in used)}" for name, used in schema.results]
    if results:
        yield "results", "; ".join(results)
    if schema.without_result or not results:
        yield "states", listed(names[number] for number in schema.without_result) or "none"


def identity_values(identity: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a state depends on as values of JSON, with its aggregates in the words of their functions."""
    words = {name: [*map(in_words, identity[name])] for name in (STATE, LASTING) if identity.get(name)}
    return {**identity, **words}


def _list(values: Any) -> str:
    return ", ".join(map(str, values or ()))


def _length(identity: Mapping[str, Any], name: str) -> str:
    return length(identity[f"{name} in ticks"] * identity["tick in us"])


def _hopping(identity: Mapping[str, Any]) -> str:
    size, step = _length(identity, "size"), _length(identity, "step")
    offset = f", from {_length(identity, 'offset')}" if identity.get("offset in ticks") else ""
    return (
        f"tumbling windows of {size}{offset}"
        if size == step
        else f"hopping windows of {size} every {step}{offset}"
    )


def _calendar(identity: Mapping[str, Any]) -> str:
    size, step = (_in_weeks(identity[name], identity["from"]) for name in ("size", "step"))
    name = f"tumbling windows of {size}" if size == step else f"hopping windows of {size} every {step}"
    return f"{name}{_since(identity['from'])} in {identity['zone']}"


def _in_weeks(text: str, first: str) -> str:
    """A length of a calendar that begins on a day; whole weeks are said as such, but for days that begin with the epoch."""
    number, _, unit = text.partition(" ")
    if unit != "days" or int(number) % _WEEK_DAYS or first.startswith(_EPOCH):
        return text
    weeks = int(number) // _WEEK_DAYS
    return f"{weeks} week{'' if weeks == 1 else 's'}"


def _since(first: str) -> str:
    """When periods begin, if it is at another hour, day or month than the first one."""
    day, _, clock = first.partition(" ")
    if day not in (_EPOCH, _FIRST_MONDAY):
        return f" since {first}"
    return f" from {clock.removesuffix(':00')}" if clock else ""


def _to_date(periods: Sequence[str]) -> str:
    """Periods of lookbacks, such as "day", "month", or "day from 06:00", the shortest first."""
    lengths = [period.partition(" since ") for period in periods]
    known = [*_PERIODS]
    lengths.sort(key=lambda parts: known.index(parts[0]) if parts[0] in known else len(known))
    return ", ".join(f"{_PERIODS.get(name, name)}{_since(first)}" for name, _, first in lengths)


def _sliding(identity: Mapping[str, Any]) -> str:
    return f"sliding windows of {_length(identity, 'size')}"


def _session(identity: Mapping[str, Any]) -> str:
    ticks = identity["gap in ticks"]
    gap = _length(identity, "gap") if isinstance(ticks, int) else str(ticks)
    most = f", {_length(identity, 'max length')} long at most" if identity.get("max length in ticks") else ""
    article = "a gap of" if isinstance(ticks, int) else "a gap"
    return f"session windows with {article} {gap}{most}"


def _rolling(identity: Mapping[str, Any]) -> str:
    lookbacks = []
    if identity.get("longest lookback in ticks"):
        lookbacks.append(f"up to {_length(identity, 'longest lookback')}")
    if to_date := [*map(str, identity.get("to date", ()))]:
        lookbacks.append(f"the {_to_date(to_date)} to date in {identity['zone']}")
    if identity.get("lifetime"):
        lookbacks.append("the lifetime of a key")
    return f"rolling windows of {' and '.join(lookbacks)}" if lookbacks else "rolling windows"
