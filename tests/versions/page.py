"""The page of docs that says what was found."""

from collections.abc import Mapping

from tests.versions.environments import ALL, ROOT, Environment
from tests.versions.parts import PARTS, WITH_FORMAT_2
from tests.versions.running import Outcome, Result

PAGE = ROOT / "docs" / "versions.md"
BEGIN = "<!-- what python -m tests.versions found -->\n"
"""Stands before the tables, which go to the end of the page."""
REPORT = ROOT / "build" / "versions.md"
"""What was found in each part; the page has the sums."""
_PACKAGES = ("pyspark", "pyarrow", "pandas", "numpy", "protobuf")
_HEADS = {"pyspark": "PySpark", "numpy": "NumPy", "pyarrow": "PyArrow"}
_Results = Mapping[Environment, Result]


def write(results: _Results) -> None:
    """Write the table into the page, and the report of all parts."""
    prose = PAGE.read_text("utf-8").partition(BEGIN)[0]
    PAGE.write_text(f"{prose}{BEGIN}\n{tables(results)}", "utf-8")
    REPORT.parent.mkdir(exist_ok=True)
    REPORT.write_text(report(results), "utf-8")


def tables(results: _Results) -> str:
    """Return what the page says as Markdown: environments with how many tests passed, and why tests were skipped."""
    ran = _ran(results)
    texts = [_environments(ran), _skipped(ran)] if ran else []
    return "\n\n".join(text for text in [*texts, _missing(results)] if text) + "\n"


def report(results: _Results) -> str:
    """Return the outcome of each part in each environment, as Markdown."""
    return "\n\n".join(_outcomes(_ran(results), names) for names in (list(PARTS), list(WITH_FORMAT_2))) + "\n"


def _ran(results: _Results) -> _Results:
    return {environment: result for environment, result in results.items() if result.parts}


def _environments(ran: _Results) -> str:
    head = ["environment", *(_HEADS.get(name, name) for name in _PACKAGES), "date", "tests passed"]
    rows = [
        [_name(env), *(result.versions[name] for name in _PACKAGES), result.date, _sum(result)]
        for env, result in ran.items()
    ]
    return _table(head, rows)


def _sum(result: Result) -> str:
    failed = sum(len(outcome.failed) for outcome in result.parts.values())
    passed = sum(outcome.passed for outcome in result.parts.values())
    return f"{passed}, **{failed} failed**" if failed else f"{passed}"


def _outcomes(ran: _Results, parts: list[str]) -> str:
    head = ["", *(_name(environment) for environment in ran)]
    rows = [[part, *(_cell(result.parts.get(part)) for result in ran.values())] for part in parts]
    return _table(head, rows)


def _cell(outcome: Outcome | None) -> str:
    if outcome is None:
        return ""
    if outcome.failed:
        return f"**{len(outcome.failed)} failed**"
    return f"{outcome.passed}" if outcome.passed else "skipped" if outcome.skipped else "not run"


def _skipped(ran: _Results) -> str:
    """A list of reasons, each with its environments."""
    found: dict[str, list[str]] = {}
    for environment, result in ran.items():
        for reason in sorted({reason for part in result.parts.values() for reason in part.skipped}):
            found.setdefault(reason, []).append(_name(environment))
    lines = [f"- {', '.join(names)}: {reason}" for reason, names in found.items()]
    return "\n".join(["Skipped:", "", *lines]) if lines else "No test was skipped."


def _missing(results: _Results) -> str:
    names = [
        _name(environment)
        for environment in ALL
        if environment not in results or not results[environment].parts
    ]
    return f"Not tested: {', '.join(names)}." if names else ""


def _name(environment: Environment) -> str:
    lowest = ", lowest" if environment.lowest else ""
    return f"{environment.pyspark} on {environment.python}{lowest}"


def _table(head: list[str], rows: list[list[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
