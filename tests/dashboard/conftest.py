"""One node, one browser and two of its windows for all tests of the dashboard that leave them as they find them."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from support.browser import SETTINGS, Dashboard, chromium
from support.managed_clients import Peers
from support.management import ManagedNode

if TYPE_CHECKING:
    from playwright.sync_api import Browser

_HERE: Final = Path(__file__).parent
_TEST_S: Final = 600  # where a node and a browser start, on a machine that has no time


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


class _Windows:
    """The Chromium that tests of this directory share while they come one after the other, and its windows.

    A window that was there has the page's files already, and a login: both take longer than most tests.
    """

    def __init__(self) -> None:
        self._stack = ExitStack()
        self._browser: Browser | None = None
        self._windows: dict[tuple[str, str], Dashboard] = {}

    def browser(self) -> Browser:
        """Start it unless it runs."""
        if self._browser is None or not self._browser.is_connected():
            self.end()
            self._browser = self._stack.enter_context(chromium())
        return self._browser

    def window(self, node: ManagedNode, name: str) -> Dashboard:
        """One of the windows of a node; `admin` with the administrator logged in."""
        browser = self.browser()
        found = self._windows.get((node.url, name))
        if found is None:
            found = Dashboard(browser, node)
            self._windows[node.url, name] = found if name != "admin" else found.log_in()
        return found

    def close(self, node: ManagedNode) -> None:
        """Close the windows of a node that is about to end."""
        for key in [key for key in self._windows if key[0] == node.url]:
            self._windows.pop(key).close()

    def end(self) -> None:
        """End it: while it runs, no event loop can."""
        self._browser = None
        self._windows.clear()
        self._stack.close()


_windows = _Windows()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(nextitem: pytest.Item | None) -> Generator[None, object, object]:
    """End Chromium behind the last test of this directory."""
    try:
        return (yield)
    finally:
        if nextitem is None or nextitem.path.parent != _HERE:
            _windows.end()


@pytest.fixture(scope="session")
def chromium_ends() -> Iterator[None]:
    """Where tests are left out behind one that failed, no test is the last one of this directory."""
    yield
    _windows.end()


@pytest.fixture(scope="module")
def browser(chromium_ends: None) -> Browser:
    """Chromium."""
    return _windows.browser()


@pytest.fixture(scope="module")
def _windows_of_module(
    request: pytest.FixtureRequest, chromium_ends: None, managed: ManagedNode
) -> Iterator[ManagedNode]:
    """The node; where it is the module's own, its windows end with the module."""
    yield managed
    if hasattr(request.module, "managed"):
        _windows.close(managed)


@pytest.fixture(scope="module")
def _admin_window(_windows_of_module: ManagedNode) -> Iterator[Dashboard]:
    dashboard = _windows.window(_windows_of_module, "admin")
    yield dashboard
    dashboard.leave()
    dashboard.check()


@pytest.fixture
def admin(_admin_window: Dashboard) -> Iterator[Dashboard]:
    """The dashboard, with the administrator logged in; tests open the page that they are about."""
    yield _admin_window
    _admin_window.page.unroute_all()
    _admin_window.look()


@pytest.fixture
def guest(_windows_of_module: ManagedNode) -> Iterator[Dashboard]:
    """A second window, in which nobody is logged in."""
    dashboard = _windows.window(_windows_of_module, "guest")
    yield dashboard
    dashboard.page.unroute_all()
    dashboard.forget()
    dashboard.check()


@pytest.fixture
def peers(managed: ManagedNode) -> Iterator[Peers]:
    """MQTT clients of the node, which leave it with their sessions."""
    with Peers(managed) as made:
        yield made
