"""The search of small worlds: runs that differ only in the order of steps that do not meet are played once.

Each step leaves a footprint (`footprints`): files, the journal, clocks, futures, the life of processes. Two steps in a row that
do not meet lead to the same state in either order, and neither makes the other one impossible. So runs that differ only in such
orders are alike, and one of them is enough. The search is depth first. Where a step meets an earlier one, and no step between
them makes it follow from that, the two are a race: whoever has to go on for the other order is tried before the earlier step,
too (dynamic partial-order reduction, Flanagan and Godefroid 2005, with the source sets of Abdulla and others 2014).

- A state that is known is not searched again, but its later steps are: each is kept with what it needs of other steps, and is
  held against the run that has come to the state. Footprints do not depend on the way there, since equal states have all in
  common that the rest of a run depends on; no run comes back to a state, so that a known one has been searched through.
- Who goes on is tried in all ways: with the call done, failed, and done without an answer.
- What a step makes impossible is tried before it. An attempt that never began is held against the run at its end.
- A fault need not happen. All that may are tried when all else is done, and from there races lead them to earlier places. One
  fault excludes the others, which is no race: without it, whoever it hits goes on as it would. This holds for one fault; more
  are refused.

With `full`, all orders are tried. `test_search` compares the ends that both come to.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

from tests.protocol.executor_world import Executors, ExecutorWorld
from tests.protocol.footprints import Footprint
from tests.protocol.runs import Run, play
from tests.protocol.world import FAULTS, Choice, Scenario, World


@dataclass(slots=True)
class Search:
    """How far a search went.

    Attributes:
        states: different ones.
        runs: that were played.
        ends: the different states in which all was done.
        failed: the first run that failed, or None.
        complete: whether there is nothing left to try.
    """

    states: int = 0
    runs: int = 0
    ends: set[bytes] = field(default_factory=set)
    failed: Run | None = None
    complete: bool = False


class _Later(NamedTuple):
    """A step that was done some time after a state, and what had to be done before it.

    Attributes:
        first: who does the first step of those that it needs, itself among them.
        reads, changes: its footprint.
        needs_reads, needs_changes: footprint of the steps that it needs, without its own.
        who: all who do one of them, as bits.
    """

    first: str
    reads: int
    changes: int
    needs_reads: int
    needs_changes: int
    who: int


@dataclass(slots=True)
class _Node:
    """A state of the run that goes on, and what is still to be tried in it.

    Attributes:
        state: its hash.
        options: what can happen.
        by: their numbers, by who does them.
        open: numbers of options to try.
        tried: who is tried, or will be.
        later: steps after it, in the order in which they were found.
        chosen: the number of the option that the run has taken.
        who, reads, changes: whose step that was, and its footprint.
    """

    state: bytes
    options: list[Choice]
    by: dict[str, list[int]]
    open: list[int] = field(default_factory=list)
    tried: set[str] = field(default_factory=set)
    later: dict[_Later, None] = field(default_factory=dict)
    chosen: int = 0
    who: int = 0
    reads: int = 0
    changes: int = 0

    def add(self, name: str) -> None:
        """Have all that this one may do tried."""
        if name not in self.tried and name in self.by:
            self.tried.add(name)
            self.open += self.by[name]


def _who(choice: Choice) -> str:
    """Who does this: a task that goes on, or whose call fails; or the driver in a process; or chance."""
    if choice[0] in ("run", "failure", "lost answer"):
        return choice[1]
    return f"begin {choice[-1]}" if choice[0] == "begin" else " ".join(choice)


def exhaustive(
    scenario: Scenario | Executors, go_on: Callable[[Search], bool] = lambda _: True, *, full: bool = False
) -> Search:
    """Try all runs of a scenario, as long as `go_on` says so.

    Args:
        scenario: what may happen, with at most one fault.
        go_on: is asked after each run.
        full: whether to try each order of steps, also of those that do not meet.
    """
    if scenario.faults > 1:
        raise ValueError(f"the search has at most one fault, not {scenario.faults}")
    return _Searching(scenario, full=full).search(go_on)


class _Searching:
    """A search that goes on."""

    def __init__(self, scenario: Scenario | Executors, *, full: bool) -> None:
        self._scenario = scenario
        self._full = full
        self._known: dict[bytes, dict[_Later, None]] = {}
        self._same: dict[_Later, _Later] = {}
        self._stack: list[_Node] = []
        self._bits: dict[str, int] = {}
        self._search = Search()
        self._fixed = 0

    def search(self, go_on: Callable[[Search], bool]) -> Search:
        search, stack = self._search, self._stack
        while True:
            self._fixed = len(stack)
            forced = [(node.chosen, node.options[node.chosen]) for node in stack[:-1]]
            run = play(self._scenario, self._choose, self._is_known, self._done, forced=forced, late=True)
            search.runs += 1
            search.states = len(self._known) + len(stack)
            if run.failure is not None:
                search.failed = run
                return search
            while stack and not stack[-1].open:
                node = stack.pop()
                self._known[node.state] = node.later
            if not stack:
                search.states = len(self._known)
                search.complete = True
                return search
            if not go_on(search):
                return search

    def _is_known(self, step: int, world: World | ExecutorWorld, options: list[Choice]) -> bool:
        if step < self._fixed:
            return False
        state = world.state()
        later = self._known.get(state)
        self._sees_disabled(options)
        if later is not None:
            for one in later:
                self._races(one, len(self._stack) - 1)
            return True
        by: dict[str, list[int]] = {}
        for number, choice in enumerate(options):
            by.setdefault(_who(choice), []).append(number)
        node = _Node(state, options, by)
        self._stack.append(node)
        if self._full or options[0] == ("end",):
            for name in by:
                node.add(name)
            node.open.reverse()
        else:
            node.add(_who(options[0]))
        if options[0] == ("end",):
            self._search.ends.add(state)
            for who, touched in [] if self._full else world.unbegun():
                self._races(_Later(who, touched.reads, touched.changes, 0, 0, self._bit(who)), step)
        return False

    def _choose(self, step: int, options: list[Choice]) -> int:
        node = self._stack[step]
        node.chosen = node.open.pop()
        return node.chosen

    def _done(self, step: int, touched: Footprint) -> None:
        """A step was done."""
        node = self._stack[step]
        name = _who(node.options[node.chosen])
        node.who = self._bit(name)
        node.reads, node.changes = touched.reads, touched.changes
        if not self._full:
            later = _Later(name, touched.reads, touched.changes, 0, 0, node.who)
            node.later[self._same.setdefault(later, later)] = None
            self._races(later, step - 1)

    def _bit(self, name: str) -> int:
        return self._bits.setdefault(name, 1 << len(self._bits))

    def _sees_disabled(self, options: list[Choice]) -> None:
        """What a step has made impossible might be done before it."""
        if self._full or not self._stack:
            return
        node = self._stack[-1]
        choice = node.options[node.chosen]
        now = {*options}
        for other in node.options:
            if other not in now and not (choice[0] in FAULTS and other[0] in FAULTS):
                node.add(_who(other))

    def _races(self, later: _Later, at: int) -> None:
        """Have a step tried before each earlier one that it meets, but for those that it needs."""
        first, reads, changes, needs_reads, needs_changes, who = later
        for place in range(at, -1, -1):
            node = self._stack[place]
            direct = changes & node.reads or reads & node.changes
            needed = who & node.who or needs_changes & node.reads or needs_reads & node.changes
            if direct and not needed and first not in node.tried and not self._leads_there(place):
                node.add(first)
            if direct or needed:
                first = _who(node.options[node.chosen])
                needs_reads |= node.reads
                needs_changes |= node.changes
                who |= node.who
            one = _Later(first, reads, changes, needs_reads, needs_changes, who)
            if one in node.later:
                return
            node.later[self._same.setdefault(one, one)] = None

    def _leads_there(self, place: int) -> bool:
        """Whether someone is tried in a state who can go on first if the step that the run took there comes last.

        Of the steps after it, those that need it are left out; of the others, those that need no other one can come first.
        """
        node = self._stack[place]
        last = [node.reads, node.changes, node.who]
        before = [0, 0, 0]
        for later in self._stack[place + 1 :]:
            if not later.who:  # Nothing was done there yet.
                break
            needs = [
                bool(some[1] & later.reads or some[0] & later.changes or some[2] & later.who)
                for some in (last, before)
            ]
            if not (needs[0] or needs[1]) and _who(later.options[later.chosen]) in node.tried:
                return True
            some = last if needs[0] else before
            some[0] |= later.reads
            some[1] |= later.changes
            some[2] |= later.who
        return False
