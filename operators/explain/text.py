"""An explanation as text: labelled lines in sections."""

import re
from collections.abc import Iterator, Sequence
from textwrap import wrap

from operators.columns.duration_text import length
from operators.explain.lengths import number_range, plural
from operators.explain.parts import Parts, StatePart
from operators.kinds.described import named_values
from state_backends.store.cutting import PAGE_ENTRIES
from state_backends.store.schema import head_codes

_WIDTH = 110
_MOST_INDENT = 32
_LENGTH = re.compile(r"(\d) (?=(?:d|h|min|s|ms|us)\b)")
_TYPES = {"i8": "int64", "f8": "float64", "object": "object"}
Line = tuple[str, str]


def text(of: Parts) -> str:
    """Return an explanation as aligned lines of at most 110 columns."""
    keys = named_values(dict(of.binding.output.keys))
    sections = (
        (f"{of.windows.title}, {f'by {keys}' if keys else 'all records as one group'}", _time(of)),
        ("aggregates", _aggregates(of)),
        ("state", _state(of)),
        ("on Spark", _spark(of)),
        ("options", _options(of)),
    )
    filled = [(title, list(lines)) for title, lines in sections]
    indent = min(_MOST_INDENT, 4 + max(len(label) for _, lines in filled for label, _ in lines))
    return "\n".join(f"{title}\n{_align(lines, indent)}" for title, lines in filled if lines)


def _align(lines: Sequence[Line], indent: int) -> str:
    rows = [
        row
        for label, content in lines
        for row in wrap(
            _LENGTH.sub("\\1\u00a0", content),  # no line break between a number and its unit
            _WIDTH,
            initial_indent=f"  {label}  ".ljust(indent),
            subsequent_indent=" " * indent,
            break_long_words=False,
            break_on_hyphens=False,
        )
    ]
    return "\n".join(rows).replace("\u00a0", " ")


def _time(of: Parts) -> Iterator[Line]:
    windows = of.windows
    yield from windows.settings or [("windows", windows.bounds)]
    if of.streamed is None:
        yield (
            "late",
            "none: the records of a bounded frame are processed in order of event time, and grace has no effect",
        )
    else:
        yield "close time", _close_time(of)
        yield "late", windows.late
    yield "timers" if windows.settings else "closed", windows.close_rule
    emission = windows.emission or of.binding.output.emission
    if emission is not None:
        yield "emits", emission


def _close_time(of: Parts) -> str:
    binding, rule = of.binding, of.watermark_rule
    if rule is not None and rule.chained:
        behind = f" less {length(rule.behind_us)}" if rule.behind_us > 0 else ""
        return f"the watermark of the first operator of the query{behind}; records are late by that of the previous batch"
    grace = f"less {length(binding.grace * binding.tick_us)} of grace" if binding.grace else "without grace"
    return f"the highest event time, {grace}"


def _aggregates(of: Parts) -> Iterator[Line]:
    for part in of.aggregates:
        change = "" if part.change is None else f"; {part.change}"
        yield part.name, f"{part.type}, by {part.strategy.name}: {part.strategy.cost}{change}"
        if part.since is not None:
            counts = "count" if ", " in part.name else "counts"
            yield (
                "",
                f"{part.name} {counts} all records since {part.since}: windows that begin earlier may lack some",
            )
    for strategy in dict.fromkeys(part.strategy for part in of.aggregates):
        yield f"({strategy.name})", strategy.why


def _state(of: Parts) -> Iterator[Line]:
    state, windows = of.state, of.windows
    yield "an entry", windows.entry
    yield "a page", f"up to {PAGE_ENTRIES} entries of a key, in a segment of {length(state.segment_us)}"
    codes = zip(state.head, head_codes(state.head), strict=True)
    yield "columns", named_values({name: _TYPES[code] for (name, _), code in codes})
    for name, parts in state.states:
        types = {part: _TYPES[code] for part, code in parts}
        yield "", f"{name}: {named_values(types, ' ') if len(types) > 1 else next(iter(types.values()))}"
    yield "bytes", _entry_bytes(state)
    yield "kept", _kept(of)
    yield "a key", _key_bytes(state, windows.entries)
    if not state.objects or state.object_bytes is not None:
        yield "a change", _change(of)


def _kept(of: Parts) -> str:
    if of.windows.since is None:
        return "until the operator takes it out of the store"
    needed = of.state.needed_us
    kept = "its gap and grace" if needed is None else length(needed)
    return f"until stream time is {kept} past {of.windows.since}; up to one segment longer, since whole segments are dropped"


def _entry_bytes(state: StatePart) -> str:
    row = f"{state.row_bytes} for an entry"
    page = f"{state.row_bytes} for the header of a page"
    if not state.objects:
        return f"{row}, {page}"
    if state.object_bytes is None:
        return f"{row} without its objects, {page}"
    sizes = [f"{size:,} with {plural(records, 'record')}" for records, size in state.object_bytes.items()]
    of_objects = ", ".join(sizes) if state.grows else f"{state.object_bytes[1]:,}"
    return f"{row} and about {of_objects} for its objects ({state.assumed}), {page}"


def _key_bytes(state: StatePart, noun: str) -> str:
    least, most = state.entries
    size = number_range(state.key_bytes(least), state.key_bytes(most, state.pages(least) + (least < most)))
    unknown = " without objects" if state.objects and state.object_bytes is None else ""
    if state.lone:
        return f"{size} bytes for each session"
    if least < most:
        return f"{size} bytes with records all the time: {number_range(least, most)} {noun}"
    return f"{size} bytes{unknown} for {least:,} {noun} in {plural(state.pages(least), 'page')}"


def _change(of: Parts) -> str:
    """What a batch writes for a key with one new or changed entry, however many entries it has."""
    written = number_range(*of.state.changed_bytes)
    return (
        f"of one entry of a key writes {written} bytes to the backend, and about {of.state.logged_bytes:,} and the key to the "
        "changelog, however many entries there are"
    )


def _spark(of: Parts) -> Iterator[Line]:
    if of.bounded is not None:
        yield "bounded", of.bounded.text
    if of.streamed is not None:
        yield "stream", of.streamed.text


def _options(of: Parts) -> Iterator[Line]:
    config, binding = of.config, of.binding
    if of.streamed is None:
        yield (
            "backend",
            "none: for a bounded frame, the state of a key is in memory while the key is processed",
        )
    else:
        yield "backend", config.backend
        buckets = "Spark's number of shuffle partitions" if of.buckets is None else f"{of.buckets:,}"
        yield "buckets", f"{buckets}, each with a task and a state"
    yield (
        "segment",
        length(binding.segment * binding.tick_us) + (", the default" if config.segment is None else ""),
    )
    for name, value in config.options:
        if name not in ("state.buckets", "state.segment"):
            yield name, value
