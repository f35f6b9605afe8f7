"""Stored states in the words of the functions that users call, such as `sum("amount")`: what users read has no other names."""

import re
from collections.abc import Iterable

from state_backends.store.schema import name_and_since

_FUNCTIONS = {
    "CountRows": "count",
    "CountValid": "count",
    "SumInt": "sum",
    "SumLong": "sum",
    "SumFloat": "sum",
    "SumDecimal": "sum",
    "Min": "min",
    "Max": "max",
    "PowerSums": "variance",
    "CrossSums": "covar_samp",
    "Collect": "collect_list",
    "Distinct": "count_distinct",
    "DistinctElements": "collect_union",
    "Values": "percentile",
    "DistinctSketch": "approx_count_distinct",
    "ValueSketch": "hll_sketch_agg",
    "UnionSketch": "hll_union_agg",
    "QuantileSketch": "approx_quantiles",
    "FloatSketch": "kll_sketch_agg_float",
    "LongSketch": "kll_sketch_agg_bigint",
    "MergedDoubles": "kll_merge_agg_double",
    "MergedFloats": "kll_merge_agg_float",
    "MergedLongs": "kll_merge_agg_bigint",
    "Top": "top_n",
    "Bottom": "bottom_n",
    "BitAnd": "bit_and",
    "BitOr": "bit_or",
    "BitXor": "bit_xor",
    "Multiply": "product",
    "CentralMoments": "skewness",
    "FrequentValues": "approx_top_k",
}
_WITH_NUMBER = {"Top", "Bottom", "Ends"}
"""States whose second argument is a number."""
_SETTINGS = {
    "SumDecimal": 1,
    "Min": 1,
    "Max": 1,
    "DistinctSketch": 1,
    "ValueSketch": 1,
    "UnionSketch": 1,
    "QuantileSketch": 1,
    "FloatSketch": 1,
    "LongSketch": 1,
    "MergedDoubles": 1,
    "MergedFloats": 1,
    "MergedLongs": 1,
    "ObjectExtreme": 1,
    "FrequentValues": 1,
    "DecayedSum": 2,
    "Ends": 3,
}
"""How many arguments of a state, the last ones, are not those of the function."""
_STATE = re.compile(r"(\w+)\((.*)\)", re.DOTALL)
_WHERE = re.compile(r"(?:, |^)where=(['\"])(.*)\1$", re.DOTALL)
_BY = re.compile(r"By\(([^;]*); (.*?)(?:, where=(['\"])(.*)\3)?\)", re.DOTALL)
_OF_USERS = re.compile(r"(.+) (\d+)\((.*); [a-z0-9, ]+\)", re.DOTALL)


def in_words(state: str) -> str:
    """Return the text of a stored state in the words of the function that it is kept for."""
    name, since = name_and_since(state)
    words = _words(name)
    return f"a separate {words}" if since else words


def _words(name: str) -> str:
    """A state in words, without since when it is there."""
    name = name.removeprefix("records of ")  # of a fold
    return _by_category(name) or _function(name) or _of_user(name) or name


def listed(states: Iterable[str]) -> str:
    """Return several states in words, each once."""
    return ", ".join(dict.fromkeys(in_words(str(state)) for state in states))


def _function(name: str) -> str | None:
    found = _STATE.fullmatch(name)
    if found is None:
        return None
    kind, inside = found.groups()
    where = _WHERE.search(inside)
    given = inside[: where.start()] if where else inside
    columns = given.split(", ") if given else []
    columns = columns[: len(columns) - _SETTINGS.get(kind, 0)]
    if kind == "ObjectExtreme":
        function = "max" if given.endswith("True") else "min"
    elif kind == "DecayedSum":
        function = "decayed_count" if given.endswith("True") else "decayed_sum"
    elif kind == "Ends":
        function = "last_n" if given.split(", ")[-3] == "True" else "first_n"
    elif kind == "Pick":
        *columns, last, _ = columns
        columns = columns[:1] if len(columns) == 3 else columns[:2]
        function = (
            ("min_by", "max_by")[last == "True"] if len(columns) > 1 else ("first", "last")[last == "True"]
        )
    elif kind in ("TopBy", "BottomBy"):
        function = "max_by" if kind == "TopBy" else "min_by"
        columns = [columns[0], columns[2], columns[1]]
    elif kind in _FUNCTIONS:
        function = _FUNCTIONS[kind]
    else:
        return None
    number = {"TopBy": 2, "BottomBy": 2}.get(kind, 1 if kind in _WITH_NUMBER else None)
    quoted = [each if n == number else f'"{each}"' for n, each in enumerate(columns)]
    if where:
        quoted.append(f'where="{where[2]}"')
    return f"{function}({', '.join(quoted)})"


def _by_category(name: str) -> str | None:
    found = _BY.fullmatch(name)
    if found is None:
        return None
    last = _states(found[2])[-1]  # That of the aggregate itself: those before it count.
    where = "" if found[4] is None else f', where="{found[4]}"'
    words = _words(last)
    inner = words if not where else f"{words[:-1]}{where if words[-2] != '(' else where[2:]})"
    return f'{inner}.by("{found[1]}")'


def _states(text: str) -> list[str]:
    """The states in the text of one that has several; some have semicolons in brackets."""
    found, depth = [""], 0
    for part in re.split(r"([()]|; )", text):
        depth += {"(": 1, ")": -1}.get(part, 0)
        if part == "; " and not depth:
            found.append("")
        else:
            found[-1] += part
    return found


def _of_user(name: str) -> str | None:
    found = _OF_USERS.fullmatch(name)
    return found and f"{found[1]}({found[3]}), version {found[2]}"
