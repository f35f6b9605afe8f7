"""Runs: lists of choices, drawn at random, made shorter, and drawn as a table."""

import logging
import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from tests.protocol.executor_world import Executors
from tests.protocol.footprints import Footprint
from tests.protocol.world import FAULTS, Choice, Scenario

END: Choice = ("end",)


@dataclass(slots=True)
class Run:
    """What happened.

    Attributes:
        chosen: the number of each choice among the options that there were.
        struck: the faults.
        failure: what the judge found, or None.
        cut: whether it ended in a state that was known.
        log: lines of its drawing: a column and a text.
        planned: kinds of faults that a random run was to have.
        late: whether a fault might come when all was done.
    """

    chosen: list[int] = field(default_factory=list)
    struck: list[str] = field(default_factory=list)
    failure: BaseException | None = None
    cut: bool = False
    log: list[tuple[str, str]] = field(default_factory=list)
    planned: set[str] = field(default_factory=set)
    late: bool = False


def play(
    scenario: Scenario | Executors,
    choose: Callable[[int, list[Choice]], int],
    known: Callable[[int, Any, list[Choice]], bool] | None = None,
    done: Callable[[int, Footprint], None] = lambda *_: None,
    *,
    forced: Sequence[tuple[int, Choice]] = (),
    late: bool = False,
) -> Run:
    """Play one run.

    Args:
        scenario: what may happen.
        choose: the number of the option that happens, given the number of the step and the options.
        known: whether the state of a world, at a step and with options, was seen before: the run ends there.
        done: is called after each step with what it has touched.
        forced: the first choices, by number, which were possible before; nothing is asked about them.
        late: whether a fault may come when all is done. The run ends with the option ("end",) then.
    """
    run, world = Run(late=late), scenario.world()
    with unlogged(), world.installed():  # Each run has its failures.
        try:
            run.chosen += [number for number, _ in forced]
            ahead = world.baton.ahead = [choice for _, choice in reversed(forced)]
            while ahead:
                world.do(ahead.pop())
            while options := world.options() or ([END, *world.late_faults()] if late else []):
                step = len(run.chosen)
                world.judge.goes_on(step)
                if known is not None and known(step, world, options):
                    run.cut = True
                    break
                number = choose(step, options)
                run.chosen.append(number)
                if options[number] == END:
                    break
                world.do(options[number])
                done(step, world.baton.touched)
            if not run.cut:
                world.judge.ends()
        except Exception as error:  # noqa: BLE001 - the product's and the judge's: shown with the run
            run.failure = error
        finally:
            run.struck, run.log = world.struck, world.log
            world.close()
    return run


@contextmanager
def unlogged() -> Iterator[None]:
    """Have the product say nothing, as long as this lasts."""
    loggers = [logging.getLogger(name) for name in ("state_backends", "operators")]
    before = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        for logger, level in zip(loggers, before, strict=True):
            logger.setLevel(level)


def replay(scenario: Scenario | Executors, chosen: Sequence[int], *, late: bool = False) -> Run:
    """Play these choices; after them, and where one does not exist, the first option."""

    def choose(step: int, options: list[Choice]) -> int:
        return chosen[step] if step < len(chosen) and chosen[step] < len(options) else 0

    return play(scenario, choose, late=late)


def scenario_of(seed: int) -> Scenario:
    """A larger world: nine batches, three processes, up to three faults of different kinds."""
    disk = seed // 2 % 2 == 1
    others = {1: ("read",), 2: ("return",)}.get(seed % 7, ())
    return Scenario(
        kind=("memory", "files")[seed % 2],
        disk=disk,
        batches=9,
        processes=3,
        faults=3,
        allowed=("death", "failure", "lost answer", "clock", *(("power",) if disk else ()), *others),
        every=1 + (seed // 4) % 4 // 3,
        one_host=seed // 16 % 2 == 1,
    )


def executors_of(seed: int) -> Executors:
    """A world of workers and of processes with copies."""
    return Executors(functions=seed % 2 == 0)


SCENARIOS: dict[str, Callable[[int], Scenario | Executors]] = {
    "folder": scenario_of,
    "executors": executors_of,
}
"""What a random run of a seed may do, by the kind of its world."""


def random_run(scenario: Scenario | Executors, seed: int) -> Run:
    """Play a run that is drawn by its seed."""
    rng = random.Random(seed)
    eager, often = rng.choice((0.05, 0.2, 0.5)), rng.choice((0.03, 0.1, 0.3))
    most = min(scenario.faults, len(scenario.allowed))
    planned = set(rng.sample(scenario.allowed, rng.randint(0, most)))
    open_kinds = set(planned)
    sleeper = rng.choice(scenario.names)
    begins = rng.randrange(120)
    asleep = range(begins, begins + rng.choice((0, 30, 300)))

    def choose(step: int, options: list[Choice]) -> int:
        kinds = sorted({one[0] for one in options} & open_kinds)
        if kinds and rng.random() < often:
            kind = rng.choice(kinds)
            open_kinds.discard(kind)
            whom = rng.choice(sorted({one[1] for one in options if one[0] == kind}))
            return rng.choice([n for n, one in enumerate(options) if one[:2] == (kind, whom)])
        rest = [n for n, one in enumerate(options) if one[0] not in FAULTS]
        if step in asleep:
            rest = [n for n in rest if options[n][-1][0] != sleeper] or rest
        return rest[0] if rng.random() > eager else rng.choice(rest)

    run = play(scenario, choose)
    run.planned = planned
    return run


def shortest(scenario: Scenario | Executors, run: Run) -> Run:
    """A run that fails, made as short as it gets by leaving choices out."""

    def fails(chosen: list[int]) -> Run | None:
        found = replay(scenario, chosen, late=run.late)
        return found if found.failure is not None and type(found.failure) is type(run.failure) else None

    best = fails(run.chosen) or run
    improved = True
    while improved:
        improved = False
        for chosen in _shorter(best.chosen):
            found = fails(chosen)
            if found is not None and _cost(found) < _cost(best):
                best, improved = found, True
                break
    return best


def _cost(run: Run) -> tuple[int, int, int]:
    """A run is simpler with fewer faults, fewer choices that are not the first, and fewer steps."""
    return len(run.struck), sum(1 for number in run.chosen if number), len(run.chosen)


def _shorter(chosen: list[int]) -> Iterator[list[int]]:
    places = [n for n, number in enumerate(chosen) if number]
    for size in (len(chosen) // 2, len(chosen) // 4, 8, 4, 2, 1):
        if size:
            for at in range(0, len(chosen), size):
                yield chosen[:at] + chosen[at + size :]
    for place in places:
        yield [*chosen[:place], 0, *chosen[place + 1 :]]
        yield chosen[:place] + chosen[place + 1 :]


def drawing(run: Run, width: int = 46) -> str:
    """The run in time, from above: one column per process."""
    names = sorted({name for name, _ in run.log} - {"fault"})
    columns = [*names, "fault"]
    lines = ["  ".join(name.ljust(width) for name in columns).rstrip()]
    for name, text in run.log:
        short = text if len(text) <= width else text[: width // 2 - 1] + ".." + text[-(width // 2 - 1) :]
        lines.append("  ".join((short if one == name else "|").ljust(width) for one in columns).rstrip())
    return "\n".join([*lines, f"=> {type(run.failure).__name__}: {run.failure}"])
