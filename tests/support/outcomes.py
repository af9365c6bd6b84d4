"""`--outcomes FILE`: what became of the tests of a run, as JSON, for `scripts/run_tests.py`."""

import json
from pathlib import Path
from typing import Final

import pytest

_OPTION: Final = "--outcomes"


def pytest_addoption(parser: pytest.Parser) -> None:
    """The option; without it nothing is written."""
    parser.addoption(_OPTION, type=Path, metavar="FILE", help="write what became of the tests to a file, as JSON")


def pytest_configure(config: pytest.Config) -> None:
    """Listen; with workers, the results of all come to the process that pytest was started as."""
    path: Path | None = config.getoption(_OPTION)
    if path is not None:
        config.pluginmanager.register(Outcomes(path))


class Outcomes:
    """What became of each test of one run; owned by pytest, until the run ends."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._failures: dict[str, str] = {}
        self._passed: set[str] = set()
        self._skipped: set[str] = set()
        self._is_collected = True

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """A file that cannot be read is no test that could run again."""
        self._is_collected = self._is_collected and not report.failed

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Count one phase of a test; keep the output of the first that failed."""
        if report.failed:
            output = [report.longreprtext, *(f"--- {title}\n{text}" for title, text in report.sections)]
            self._failures.setdefault(report.nodeid, "\n".join(output))
        elif report.skipped and not hasattr(report, "wasxfail"):
            self._skipped.add(report.nodeid)
        elif report.when == "call":
            self._passed.add(report.nodeid)

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, exitstatus: int) -> None:
        """Write the file; a run that does not come this far has none."""
        failed = set(self._failures)
        outcomes = {
            "exit_code": int(exitstatus),
            "is_collected": self._is_collected,
            "failures": self._failures,
            "passed": len(self._passed - failed),
            "skipped": len(self._skipped - failed),
        }
        self._path.write_text(json.dumps(outcomes))
