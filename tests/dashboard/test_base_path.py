"""The dashboard behind a proxy that has it below a path: logins, pages, live values, MQTT, single sign-on."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Iterator
from typing import TYPE_CHECKING

import psutil
import pytest

from support.browser import SETTINGS, Dashboard, expect
from support.identity_provider import CLIENT, SECRET, IdentityProvider
from support.management import ManagedNode
from support.ports import held_port
from support.stripping_proxy import StrippingProxy

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = pytest.mark.service


@pytest.fixture(scope="module")
def provider() -> Iterator[IdentityProvider]:
    with IdentityProvider() as running:
        running.claims = {"preferred_username": "ann", "roles": ["operator"]}
        yield running


@pytest.fixture(scope="module")
def proxy() -> Iterator[StrippingProxy]:
    with StrippingProxy("/broker") as running:
        yield running


@pytest.fixture(scope="module")
def managed(
    tmp_path_factory: pytest.TempPathFactory, provider: IdentityProvider, proxy: StrippingProxy
) -> Iterator[ManagedNode]:
    """The node, which knows the address that the proxy gives its page."""
    sso = f'enable = true, issuer = "{provider.issuer}", clientid = {CLIENT}, secret = "{SECRET}"'
    settings = f'{SETTINGS}\n dashboard.sso.oidc {{ {sso}, dashboard_addr = "{proxy.url}" }}'
    with ManagedNode(tmp_path_factory.mktemp("base_path"), settings) as node:
        (websocket,) = node.api.get("/heliograph/websockets").json()
        proxy.targets = {"/": int(node.url.rpartition(":")[2]), "/mqtt": websocket["port"]}
        yield node


def test_all_of_it_works_below_a_path(browser: Browser, managed: ManagedNode, proxy: StrippingProxy) -> None:
    with Dashboard(browser, managed, url=proxy.url) as dashboard:
        page = dashboard.log_in().page
        expect(page.get_by_text("Live", exact=True)).to_be_visible()
        assert [cookie["path"] for cookie in page.context.cookies()] == ["/broker/api/v5"] * 2  # of login and device
        page.reload()
        expect(page.get_by_role("heading", name="Overview")).to_be_visible()
        page.get_by_role("link", name="MQTT client").click()
        page.get_by_label("Client id").fill("below-a-path")
        address = page.get_by_label("Address")
        expect(address).to_have_value(re.compile("^ws://127"))
        connected = page.get_by_text("Connected as below-a-path")
        page.get_by_role("button", name="Connect", exact=True).click()
        expect(connected).to_be_visible()
        page.get_by_role("button", name="Disconnect").click()
        address.fill(f"{proxy.url.replace('http', 'ws')}/mqtt")
        page.get_by_role("button", name="Connect", exact=True).click()
        expect(connected).to_be_visible()
        expect(page.get_by_text("Loading …")).to_have_count(0)  # what is asked behind a logout is refused
        page.get_by_role("button", name="Log out").click()
        expect(page.get_by_role("button", name="Log in", exact=True)).to_be_visible()
        assert [cookie["name"].startswith("heliograph_device_") for cookie in page.context.cookies()] == [True]


def test_single_sign_on_comes_back_below_the_path(
    browser: Browser, managed: ManagedNode, proxy: StrippingProxy, provider: IdentityProvider
) -> None:
    with Dashboard(browser, managed, url=proxy.url) as dashboard:
        dashboard.allowed.append(provider.issuer)
        page = dashboard.open().page
        page.get_by_role("link", name="Log in with single sign-on").click()
        expect(page.get_by_role("heading", name="Overview")).to_be_visible()
        expect(page.get_by_text("ann operator")).to_be_visible()
        assert page.url.startswith(f"{proxy.url}/")
        assert {cookie["path"] for cookie in page.context.cookies()} == {"/broker/api/v5"}
        expect(page.get_by_text("Live", exact=True)).to_be_visible()
        expect(page.locator("[aria-busy=true]")).to_have_count(0)  # what is asked behind a logout is refused
        page.get_by_role("button", name="Log out").click()
        expect(page.get_by_role("button", name="Log in", exact=True)).to_be_visible()


def test_the_page_of_the_api_is_found_below_the_path(managed: ManagedNode, proxy: StrippingProxy) -> None:
    answer = managed.api.get(f"{proxy.url}/api-docs", follow_redirects=True)
    assert (answer.status_code, str(answer.url)) == (200, f"{proxy.url}/#/api")


def test_what_was_typed_outlives_a_process_that_is_killed(browser: Browser, managed: ManagedNode) -> None:
    address = f"127.0.0.1:{held_port(managed)}"
    begin = managed.node.log.stat().st_size
    answer = managed.api.put("/configs/dashboard", json={"listeners": {"http": {"bind": address}}})
    assert answer.status_code == 200, answer.text
    managed.again(begin)
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
