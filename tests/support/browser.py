"""Chromium without a window, with the dashboard of a node in it; what it must not do is counted."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self
from urllib.parse import urlsplit

from support.management import ManagedNode
from support.servers import program

if TYPE_CHECKING:
    from types import TracebackType

    from playwright.sync_api import Browser, ConsoleMessage, Locator, Page, Request
    from playwright.sync_api._generated import LocatorAssertions

USER: Final = "admin"
PASSWORD: Final = "first-password-1"
SETTINGS: Final = f"""
    dashboard.default_username = "{USER}"
    dashboard.default_password = "{PASSWORD}"
    actions.engine = local
    listeners.ws.default {{ enable = true, bind = "127.0.0.1:0" }}
    sysmon.os {{ cpu_high_watermark = "100%", sysmem_high_watermark = "100%", procmem_high_watermark = "100%" }}
"""  # how busy the machine is raises no alarm
_AXE: Final = Path(__file__).parent.parent / "dashboard" / "axe" / "axe.min.js"
# Rules whose findings are never serious, whatever they find, are not asked.
_LOOK: Final = """([part, only]) => axe.run(document.querySelector("dialog[open]") ?? document.querySelector(part), {
  resultTypes: ["violations"],
  preload: false,
  ...(only ? { runOnly: [only] } : {
    rules: Object.fromEntries(axe._audit.rules.filter(({ impact }) => ["minor", "moderate"].includes(impact))
      .map(({ id }) => [id, { enabled: false }])),
  }),
})"""
_SERIOUS: Final = ("serious", "critical")
_WAIT_MS: Final = 180_000  # for a machine that is slow, not for one that is idle
_START_MS: Final = 200_000
# Goes where links go, and comes back when the page has heard of it; false where it is there already.
_GO: Final = """hash => new Promise((done) => {
  const before = location.hash;
  addEventListener("hashchange", () => done(true), { once: true });
  location.hash = hash;
  if (location.hash === before) done(false);
})"""


def expect(shown: Locator) -> LocatorAssertions:
    """What a part of a page comes to show: its methods wait for it."""
    from playwright.sync_api import expect as playwrights  # takes long to be imported

    playwrights.set_options(timeout=_WAIT_MS)
    return playwrights(shown)


@contextmanager
def chromium() -> Iterator[Browser]:
    """Debian's Chromium without a window; skipped where it is not installed.

    While it is there, no event loop can be run in this thread: tests with one belong in another module.
    """
    from playwright.sync_api import sync_playwright

    # Chromium's shell has no user interface, shows the same pages and takes two thirds of the CPU time.
    path = shutil.which("chromium-headless-shell") or program("chromium")
    # Pages live for seconds here: to optimize their code takes longer than it saves.
    arguments = ["--js-flags=--no-opt", *(["--no-sandbox"] if os.geteuid() == 0 else [])]
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=arguments, timeout=_START_MS)
        try:
            yield browser
        finally:
            browser.close()


class Dashboard:
    """A window of a browser with the dashboard of one node; owned by the test, as a context manager.

    At its end it fails where the page has asked another server, or the browser's console has an error.

    Args:
        browser: Of `chromium`.
        node: The node.
        scheme: `light` or `dark`.
        width: Of the window, in pixels.
        url: Where the page is; empty for the node itself.

    Attributes:
        page: What Playwright drives.
        allowed: Beginnings of the addresses that may be asked.
        expected_errors: Parts of console errors that belong to the test.
    """

    def __init__(
        self, browser: Browser, node: ManagedNode, scheme: str = "light", width: int = 1280, url: str = ""
    ) -> None:
        self._node = node
        self._url = url
        self.allowed: list[str] = [url] if url else []
        self._context = browser.new_context()
        self._context.set_default_timeout(_WAIT_MS)
        self.page: Page = self._context.new_page()
        self.look(scheme, width)
        self.expected_errors: list[str] = []
        self._errors: list[str] = []
        self._foreign: list[str] = []
        self.page.on("console", self._note_error)
        self.page.on("pageerror", lambda error: self._errors.append(str(error)))
        self.page.on("request", self._on_request)

    def look(self, scheme: str = "light", width: int = 1280) -> None:
        """Have the colours and the width of another window."""
        self.page.emulate_media(color_scheme="dark" if scheme == "dark" else "light")
        self.page.set_viewport_size({"width": width, "height": 900})

    def open(self, address: str = "") -> Self:
        """Open a page, as `clients?id=a`, where the user has logged in: what is shown then is of no page before it."""
        root = f"{self._url or self._node.url}/"
        if not self.page.url.startswith(root):
            self.page.goto(f"{root}#/{address}")
        elif not self.page.evaluate(_GO, f"#/{address}"):
            self.page.reload()  # it is no navigation else
        return self

    def log_in(self, user: str = USER, password: str = PASSWORD) -> Self:
        """Log in as a user does."""
        self.open()
        self.page.get_by_label("User name").fill(user)
        self.page.get_by_label("Password").fill(password)
        self.page.get_by_role("button", name="Log in").click()
        self.page.get_by_role("button", name="Log out").wait_for()
        return self

    def leave(self) -> None:
        """Go where nothing is asked: a page about what a test takes away behind itself may ask for it in vain."""
        self.open("account")
        self.page.get_by_role("heading", name="My login").wait_for()

    def forget(self) -> None:
        """Nobody is logged in, nothing is shown or kept: what the browser has of the page's files stays."""
        if self.page.url.startswith("http"):
            self.page.evaluate("localStorage.clear()")
        self.page.goto("about:blank")
        self._context.clear_cookies()
        self.look()

    def is_loaded(self) -> None:
        """Wait until nothing is loaded any more, and nothing has failed."""
        expect(self.page.get_by_role("heading", level=1)).to_be_visible()
        expect(self.page.get_by_text("Loading …")).to_have_count(0)
        expect(self.page.get_by_role("alert")).to_have_count(0)

    def check_access(self, part: str = "main", only: str = "") -> None:
        """Have axe look at what is shown: nothing serious may be wrong.

        Args:
            part: The selector of what it looks at, where no dialog is open; that one else.
            only: The one rule to ask; empty for all that can find something serious.
        """
        if not self.page.evaluate("'axe' in window"):
            self.page.evaluate(_AXE.read_text())
        found: dict[str, Any] = self.page.evaluate(_LOOK, [part, only])
        wrong = [
            f"{one['id']} ({one['impact']}): {one['help']}: {[node['html'][:300] for node in one['nodes'][:5]]}"
            for one in found["violations"]
            if one["impact"] in _SERIOUS
        ]
        assert not wrong, "\n".join([self.page.url, *wrong])

    def check_width(self) -> None:
        """Nothing makes the page wider than its window."""
        wide = self.page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
        assert wide <= 0, f"{self.page.url} is {wide} px wider than its window"

    def check_phone(self) -> None:
        """The page fits a phone, and can be read in the dark there, whose colours are all that differs."""
        self.look("dark", 360)
        self.check_width()
        self.check_access("body", only="color-contrast")
        self.look()

    def check(self) -> None:
        """Nothing was asked of another server, and no error is in the console but those that are expected."""
        errors = [error for error in self._errors if not any(part in error for part in self.expected_errors)]
        foreign, self._foreign, self._errors, self.expected_errors = self._foreign, [], [], []
        assert not foreign, f"the page has asked other servers: {foreign}"
        assert not errors, f"the browser's console has errors: {errors}"

    def close(self) -> None:
        """Close the browser's window."""
        self._context.close()

    def _on_request(self, request: Request) -> None:
        is_one = urlsplit(request.url).scheme in ("http", "https", "ws", "wss")
        if is_one and not request.url.startswith(tuple(self.allowed or [self._node.url])):
            self._foreign.append(request.url)

    def _note_error(self, said: ConsoleMessage) -> None:
        if said.type == "error":
            self._errors.append(f"{said.text} ({urlsplit(said.location['url']).path})")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()
        if kind is None:
            self.check()
