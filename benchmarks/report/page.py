"""The report as a self-contained HTML page."""

from collections.abc import Iterator, Sequence
from html import escape
from itertools import groupby

from benchmarks.report.charts import short, svg
from benchmarks.report.content import QUESTIONS
from benchmarks.report.figures import Figure, Run
from benchmarks.report.targets import NOT_MEASURED, Judged, judged

STYLE = """
:root { color-scheme: light dark; --ink: #1f2937; --paper: #ffffff; --line: #d1d5db; --dim: #6b7280; }
@media (prefers-color-scheme: dark) { :root { --ink: #e5e7eb; --paper: #16181d; --line: #3b404a; --dim: #9ca3af; } }
body { color: var(--ink); background: var(--paper); font: 16px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 60rem;
  padding: 0 1rem; }
h1 { font-size: 1.7rem; } h2 { font-size: 1.25rem; margin-top: 2.8rem; } h3 { font-size: 1rem; margin: 1.4rem 0 .3rem; }
.dim { color: var(--dim); } svg { max-width: 100%; height: auto; }
table { border-collapse: collapse; font-size: .88rem; width: 100%; }
td, th { border-bottom: 1px solid var(--line); padding: .25rem .6rem; text-align: left; }
.number { font-variant-numeric: tabular-nums; text-align: right; white-space: nowrap; }
.met { color: #15803d; } .missed { color: #dc2626; } .met, .missed { font-weight: 600; }
@media (prefers-color-scheme: dark) { .met { color: #4ade80; } .missed { color: #f87171; } }
.verdicts { table-layout: fixed; } .verdicts th:nth-child(1) { width: 54%; } .verdicts th:nth-child(4) { width: 20%; }
summary { color: var(--dim); cursor: pointer; margin: .4rem 0; }
"""


def page(run: Run) -> str:
    """Return the report of a run."""
    parts = [_head(run), _scoreboard(judged(run)), *_answers(run), *_rest(run)]
    return (
        "<!doctype html>\n<html lang='en'><head><meta charset='utf-8'>"
        "<meta name='viewport' content='width=device-width'><title>Benchmarks</title>"
        f"<style>{STYLE}</style></head><body>\n" + "\n".join(parts) + "\n</body></html>\n"
    )


def _head(run: Run) -> str:
    about, machine = run.about, run.about["machine"]
    libraries = ", ".join(f"{name} {version}" for name, version in about["libraries"].items())
    return (
        "<h1>spark-stateful-windows: benchmarks</h1>"
        f"<p class='dim'>{'The full set' if about['full'] else 'The usual set'}, {escape(about['date'])}, "
        f"commit {escape(about['commit'])}: {len(run.figures)} figures in {about['minutes']:.0f} minutes on "
        f"{escape(machine['cpu'])}, {machine['cores']} cores, {machine['memory_gb']} GB, {escape(machine['system'])}, "
        f"Python {escape(machine['python'])}; {escape(libraries)}.</p>"
        "<p>Times are medians. Ratios compare figures of this run. Look at the ratios and at how cost grows: absolute numbers "
        "depend on the machine.</p>"
    )


def _scoreboard(all_judged: Sequence[Judged]) -> str:
    counts = {
        word: sum(one.verdict == word for one in all_judged) for word in ("met", "missed", NOT_MEASURED)
    }
    summary = ", ".join(f"{count} {word}" for word, count in counts.items() if count)
    parts = [f"<h2>Targets</h2><p>{len(all_judged)} targets: {summary}.</p>"]
    for group, of_group in groupby(all_judged, key=lambda one: one.target.group):
        rows = [_verdict(one) for one in of_group]
        parts.append(
            f"<h3>{escape(group)}</h3>" + _table(["", "target", "reached", "result"], rows, "verdicts")
        )
    return "\n".join(parts)


def _verdict(one: Judged) -> list[str]:
    target = one.target
    bound = f"{'≥' if target.at_least else '≤'} {target.bound:,g} {target.unit}"
    reached = "" if one.reached is None else f"{_ratio(one.reached)} {target.unit}"
    kind = one.verdict if one.reached is not None else "dim"
    return [escape(target.what), bound, reached, f"<span class='{kind}'>{one.verdict}</span>"]


def _ratio(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _answers(run: Run) -> Iterator[str]:
    for question in QUESTIONS:
        panels = question.panels(run)
        if panels:
            yield f"<h2>{escape(question.title)}</h2><p>{escape(question.reading)}</p>{svg(panels)}"
            yield _figures(question.figures(run))


def _rest(run: Run) -> Iterator[str]:
    drawn = {figure.place for question in QUESTIONS for figure in question.figures(run)}
    rest = [figure for figure in run.figures if figure.place not in drawn]
    if rest:
        yield "<h2>Other figures</h2>" + _figures(rest, opened=True)


def _figures(figures: Sequence[Figure], *, opened: bool = False) -> str:
    rows = [_row(figure) for figure in figures]
    table = _table(["", "system", "at", "rows/s", "median", "also"], rows)
    return f"<details{' open' if opened else ''}><summary>The {len(rows)} figures</summary>{table}</details>"


def _row(figure: Figure) -> list[str]:
    section, system, axes = figure.place
    extra = ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in figure.extra.items())
    median = f"{figure.seconds:.3f} s" if figure.seconds >= 1 else f"{1_000 * figure.seconds:.3g} ms"
    return [*map(escape, (section, system, axes)), short(figure.rate), median, escape(extra)]


def _table(head: Sequence[str], rows: Sequence[Sequence[str]], kind: str = "figures") -> str:
    numbers = {n for n, name in enumerate(head) if name in ("target", "reached", "rows/s", "median")}
    titles = "".join(f"<th{' class=number' * (n in numbers)}>{name}</th>" for n, name in enumerate(head))
    lines = (
        "".join(f"<td{' class=number' * (n in numbers)}>{cell}</td>" for n, cell in enumerate(row))
        for row in rows
    )
    return f"<table class={kind}><tr>{titles}</tr>{''.join(f'<tr>{line}</tr>' for line in lines)}</table>"
