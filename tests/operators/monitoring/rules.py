"""The shipped alert rules, asked of what an output really exports, as Prometheus asks them."""

import re
from typing import Any

import yaml

from operators.monitoring import ALERTS, PrometheusOutput

Samples = dict[str, float]
_RANGE = re.compile(r"(rate|increase|max_over_time)\((\w+)\[\w+\]\)")


def rule(alert: str) -> str:
    """The expression of an alert, on one line."""
    (group,) = yaml.safe_load(ALERTS.read_text("utf-8"))["groups"]
    (expression,) = [one["expr"] for one in group["rules"] if one["alert"] == alert]
    return " ".join(expression.split())


def scrape(output: PrometheusOutput, query: str) -> Samples:
    """The values of a query with one operator, by the names of the metrics."""
    samples = [one for family in output.registry.collect() for one in family.samples]
    return {one.name: one.value for one in samples if one.labels.get("query") == query}


def fires(alert: str, *scraped: Samples, clock: float = 0.0) -> bool:
    """Whether the condition of an alert holds, but for the time that it has to hold.

    Args:
        alert: the name of the rule.
        scraped: values of one query, the newest last; its ranges have all of them.
        clock: the time, in seconds since 1970.
    """
    first, last = scraped[0], scraped[-1]

    def rate(name: str) -> float:
        return last[name] - first[name]

    names: dict[str, Any] = {
        **last,
        "rate": rate,
        "increase": rate,
        "max_over_time": lambda name: max(each[name] for each in scraped),
        "time": lambda: clock,
    }
    expression = _RANGE.sub(lambda found: f'{found[1]}("{found[2]}")', rule(alert))
    return bool(eval(expression, names))  # noqa: S307 - the rules that come with the package
