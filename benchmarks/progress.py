"""Progress of a run: each figure when it is measured, the number of tests, and the minutes so far and in total."""

import time
from collections.abc import Mapping

import pytest


class Progress:
    """Prints a line when a test ends.

    Args:
        config: pytest's configuration of this run.
        expected: seconds of each test in an earlier run, by pytest's name; for other tests their mean is used.

    Attributes:
        took: seconds of each test so far, with setup and teardown, by pytest's name.
    """

    def __init__(self, config: pytest.Config, expected: Mapping[str, float]) -> None:
        self._config = config
        self._expected = expected
        self._usual = sum(expected.values()) / len(expected) if expected else 0.0
        self._begin = time.perf_counter()
        self._left: dict[str, float] = {}
        self._count = 0
        self.took: dict[str, float] = {}

    @property
    def minutes(self) -> float:
        """Minutes since the run began."""
        return (time.perf_counter() - self._begin) / 60

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        self._left = {item.nodeid: self._expect(item.nodeid) for item in session.items}
        self._count = len(session.items)

    def pytest_report_teststatus(self, report: pytest.TestReport) -> tuple[str, str, str] | None:
        return (report.outcome if report.when == "call" else "", "", "") if report.passed else None

    @pytest.hookimpl(trylast=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.took[report.nodeid] = self.took.get(report.nodeid, 0.0) + report.duration
        if report.when == "teardown":
            self._left.pop(report.nodeid, None)
            figure = dict(report.user_properties).get("figure")
            self._say(str(figure or report.nodeid.rpartition("/")[2]))

    def _say(self, text: str) -> None:
        clock = f"{self.minutes:.1f} min"
        expected = sum(map(self._expect, self.took))
        if expected:
            pace = sum(self.took.values()) / expected
            clock += f" of about {self.minutes + pace * sum(self._left.values()) / 60:.1f}"
        terminal = self._config.pluginmanager.getplugin("terminalreporter")
        terminal.ensure_newline()
        terminal.write_line(f"[{self._count - len(self._left)}/{self._count}, {clock}] {text}")

    def _expect(self, test: str) -> float:
        return self._expected.get(test, self._usual)
