"""One node for all tests of the dashboard that leave it as they find it, and one browser for all of them."""

from collections.abc import Generator, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import pytest
from playwright.sync_api import Browser

from support.browser import SETTINGS, Dashboard, chromium
from support.management import ManagedNode

_HERE: Final = Path(__file__).parent
_TEST_S: Final = 400  # where a node and a browser start, on a machine that has no time


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give tests of this directory the time that they take where nothing is quick, unless they say themselves."""
    for item in items:
        if item.path.parent == _HERE and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(_TEST_S))


@pytest.fixture(scope="session")
def managed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ManagedNode]:
    """A node with a dashboard, whose administrator is `support.browser.USER`."""
    with ManagedNode(tmp_path_factory.mktemp("dashboard"), SETTINGS) as node:
        yield node


class _SharedChromium:
    """The Chromium that tests of this directory share while they come one after the other."""

    def __init__(self) -> None:
        self._stack = ExitStack()
        self._browser: Browser | None = None

    def browser(self) -> Browser:
        """Start it unless it runs."""
        if self._browser is None or not self._browser.is_connected():
            self.end()
            self._browser = self._stack.enter_context(chromium())
        return self._browser

    def end(self) -> None:
        """End it: while it runs, no event loop can."""
        self._browser = None
        self._stack.close()


_started = _SharedChromium()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(nextitem: pytest.Item | None) -> Generator[None, object, object]:
    """End Chromium behind the last test of this directory."""
    try:
        return (yield)
    finally:
        if nextitem is None or nextitem.path.parent != _HERE:
            _started.end()


@pytest.fixture(scope="session")
def chromium_ends() -> Iterator[None]:
    """Where tests are left out behind one that failed, no test is the last one of this directory."""
    yield
    _started.end()


@pytest.fixture(scope="module")
def browser(chromium_ends: None) -> Browser:
    """Chromium."""
    return _started.browser()


@pytest.fixture(scope="module")
def admin(browser: Browser, managed: ManagedNode) -> Iterator[Dashboard]:
    """The dashboard, with the administrator logged in; tests open the page that they are about."""
    with Dashboard(browser, managed) as dashboard:
        yield dashboard.log_in()
