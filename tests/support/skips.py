"""`--no-service-skips`: a test of a service that is skipped fails, so that a run cannot pass without what it needs."""

from collections.abc import Generator

import pytest

_OPTION = "--no-service-skips"


def pytest_addoption(parser: pytest.Parser) -> None:
    """The option, which `.ci/run` gives where it can install what the tests start."""
    parser.addoption(_OPTION, action="store_true", help="have skipped tests of services fail")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Turn the skip of a service test into a failure with its reason."""
    report = yield
    if (
        report.skipped
        and not hasattr(report, "wasxfail")
        and item.config.getoption(_OPTION)
        and item.get_closest_marker("service") is not None
    ):
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr
        report.outcome = "failed"
        report.longrepr = f"a service test may not be skipped here: {reason}"
    return report
