"""The dashboard while what answers it is slow, is killed, or gives way to another."""

import os
import signal
from collections.abc import Iterator

import psutil
import pytest
from playwright.sync_api import Browser, Route, expect

from support.browser import SETTINGS, Dashboard
from support.managed_clients import Peers
from support.management import ManagedNode
from support.ports import held_port

pytestmark = pytest.mark.service


@pytest.fixture(scope="module")
def managed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ManagedNode]:
    """A node whose process of the API is killed, and comes back at the same address."""
    with ManagedNode(tmp_path_factory.mktemp("faults"), SETTINGS) as node:
        address = f"127.0.0.1:{held_port(node)}"
        begin = node.node.log.stat().st_size
        answer = node.api.put("/configs/dashboard", json={"listeners": {"http": {"bind": address}}})
        assert answer.status_code == 200, answer.text
        node.again(begin)
        yield node


def test_a_slow_answer_is_waited_for_and_a_late_one_is_dropped(browser: Browser, managed: ManagedNode) -> None:
    held: list[Route] = []
    with Dashboard(browser, managed) as dashboard, Peers(managed) as peers:
        peers.connect("first-1")
        peers.connect("other-1")
        page = dashboard.log_in().page
        page.route("**/heliograph/clients?*first*", lambda route: held.append(route))
        dashboard.open("clients?text=first")
        expect(page.get_by_text("Loading …")).to_be_visible()
        page.get_by_label("Client id").fill("other")
        page.get_by_role("button", name="Search").click()
        expect(page.get_by_role("row").filter(has_text="other-1")).to_be_visible()
        assert held
        for route in held:
            route.abort()  # what the page no longer waits for
        expect(page.get_by_role("row").filter(has_text="first-1")).to_have_count(0)
        expect(page.get_by_role("alert")).to_have_count(0)
        dashboard.expected_errors.append("ERR_FAILED")


def test_what_was_typed_outlives_a_process_that_is_killed(browser: Browser, managed: ManagedNode) -> None:
    with Dashboard(browser, managed) as dashboard:
        dashboard.expected_errors.append("ERR_")
        page = dashboard.log_in().open("users").page
        page.get_by_role("button", name="Add a user").click()
        dialog = page.get_by_role("dialog")
        dialog.get_by_label("User name").fill("kate")
        dialog.get_by_label("Password").fill("typed-only-1")
        begin = managed.node.log.stat().st_size
        (process,) = [
            one for one in psutil.Process(managed.node.pid).children() if "heliograph.management" in one.cmdline()
        ]
        page.context.set_offline(True)  # its moment without an answer is as long as the test needs it
        dialog.get_by_role("button", name="Add a user").click()
        expect(dialog.get_by_role("alert")).to_contain_text("Nothing that you typed is lost")
        expect(dialog.get_by_label("User name")).to_have_value("kate")
        os.kill(process.pid, signal.SIGKILL)
        managed.again(begin)
        page.context.set_offline(False)
        dialog.get_by_role("button", name="Add a user").click()
        expect(page.get_by_role("row").filter(has_text="kate")).to_be_visible()
