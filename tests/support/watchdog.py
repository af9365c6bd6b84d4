"""Ends a test process whose test does not end, by a thread of C that needs neither the interpreter nor a signal.

`timeout` of pytest-timeout raises an exception in a test that takes too long. A loop that swallows exceptions, C code
that never looks for signals, and another thread all survive that. So every test gets a second limit, a grace period
above the first: then `faulthandler` prints the stack of every thread and the process exits, which fails the run. With
workers only that one exits; the test counts as failed, and a new worker goes on with the others.

Collecting the tests and leaving the process are watched, too. What is left, processes that hang without any test, ends
at the limit that `make test` and `.ci/run` set for the whole run; SIGTERM then prints the stacks as well.
"""

import faulthandler
import os
import signal
import sys
from collections.abc import Iterator
from typing import Final

import pytest

_STDERR: Final = pytest.StashKey[int]()
_COLLECTING_S: Final = 300.0
_LEAVING_S: Final = 60.0


def pytest_addoption(parser: pytest.Parser) -> None:
    """The grace period, which the watchdog's own tests make short."""
    parser.addini("watchdog_grace", "seconds above its timeout after which a test's process exits", default="60")


def pytest_configure(config: pytest.Config) -> None:
    """Keep the real stderr, which tests cannot capture, and watch the collection."""
    config.stash[_STDERR] = os.dup(sys.__stderr__.fileno() if sys.__stderr__ is not None else 2)
    show_stacks_at_sigterm(config)
    _exit_after(_COLLECTING_S, config)


def show_stacks_at_sigterm(config: pytest.Config) -> None:
    """Have SIGTERM print the stacks of all threads; again where a test has handled it."""
    faulthandler.register(signal.SIGTERM, file=config.stash[_STDERR], chain=True)


def pytest_collection_finish() -> None:
    """From here on each test has its own limit."""
    faulthandler.cancel_dump_traceback_later()


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Watch one test with its fixtures."""
    limit = _timeout_of(item)
    if limit > 0:
        _exit_after(limit + float(item.config.getini("watchdog_grace")), item.config)
    result = yield
    faulthandler.cancel_dump_traceback_later()
    return result


def pytest_unconfigure(config: pytest.Config) -> None:
    """Watch the process end: a thread that goes on for ever would keep it."""
    _exit_after(min(_LEAVING_S, float(config.getini("watchdog_grace"))), config)


def _timeout_of(item: pytest.Item) -> float:
    """The limit that pytest-timeout has for a test, in seconds; 0 for none."""
    marker = item.get_closest_marker("timeout")
    if marker is None:
        chosen = item.config.getoption("timeout", None)
        return float(item.config.getini("timeout") or 0 if chosen is None else chosen)
    return float(marker.args[0] if marker.args else marker.kwargs["timeout"])


def _exit_after(seconds: float, config: pytest.Config) -> None:
    faulthandler.dump_traceback_later(seconds, file=config.stash[_STDERR], exit=True)
