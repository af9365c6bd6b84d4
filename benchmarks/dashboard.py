"""What the dashboard costs: time to a live overview, bytes over the wire, CPU time of open pages, what clients notice.

Debian's Chromium opens the dashboard of a node, at a low priority: what is measured is the node and its management
process, not who gets a core. Ten clients exchange 1,000 messages/s at QoS 1, first without an open page, then with one;
the two take turns, and the ratio of their p99 is the median of several such pairs.

    python benchmarks/dashboard.py [--times N] [--pairs N] [--seconds N]
"""

import argparse
import os
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks import brokers
from benchmarks.brokers import Broker, BrokerError
from benchmarks.findings import Finding, add_report_options, machine, report
from benchmarks.management import managed_kind, management_pid, until_served
from benchmarks.noticed import noticed
from playwright.sync_api import Browser, BrowserContext, Page, sync_playwright

OUTPUT: Final = Path("bench-output")
_USER, _PASSWORD = "bench", "bench-password-1"
_SETTINGS: Final = f'dashboard.default_username = "{_USER}"\ndashboard.default_password = "{_PASSWORD}"\n'
_PAGES: Final = 5
_LIVE_S_MAX: Final = 1.0
_FIRST_KIB_MAX: Final = 400.0
_AGAIN_KIB_MAX: Final = 50.0
_CPU_MAX: Final = 1.0
_RATIO_MAX: Final = 1.1


class Wire:
    """Counts what a page gets over the wire, headers among it; a stream that goes on counts as far as it has come."""

    def __init__(self, page: Page) -> None:
        self._finished = 0
        self._streams: dict[str, int] = {}
        session = page.context.new_cdp_session(page)
        session.send("Network.enable")
        session.on("Network.dataReceived", self._on_data)
        session.on("Network.loadingFinished", self._on_finished)

    @property
    def kib(self) -> float:
        """So far."""
        return (self._finished + sum(self._streams.values())) / 1024

    def _on_data(self, event: dict[str, Any]) -> None:
        name = event["requestId"]
        self._streams[name] = self._streams.get(name, 0) + int(event["encodedDataLength"])

    def _on_finished(self, event: dict[str, Any]) -> None:
        self._streams.pop(event["requestId"], None)
        self._finished += int(event["encodedDataLength"])


@contextmanager
def quiet_chromium(folder: Path) -> Iterator[Browser]:
    """Chromium, at a low priority.

    Raises:
        BrokerError: It is not installed.
    """
    if (path := shutil.which("chromium")) is None:
        raise BrokerError("chromium is not installed")
    wrapper = folder / "chromium"
    wrapper.write_text(f'#!/bin/sh\nexec nice -n 19 "{path}" "$@"\n')
    wrapper.chmod(0o755)
    arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=wrapper.resolve(), args=arguments)
        try:
            yield browser
        finally:
            browser.close()


def logged_in(context: BrowserContext, url: str) -> tuple[Page, Wire, float]:
    """A page with a live overview, and how long that took from pressing "Log in"."""
    page = context.new_page()
    wire = Wire(page)
    page.goto(url)
    page.get_by_label("User name").fill(_USER)
    page.get_by_label("Password").fill(_PASSWORD)
    began = time.perf_counter()
    page.get_by_role("button", name="Log in").click()
    page.get_by_text("Live", exact=True).wait_for()
    return page, wire, time.perf_counter() - began


@contextmanager
def open_page(browser: Browser, url: str) -> Iterator[None]:
    """A page that stays open on the overview."""
    context = browser.new_context()
    try:
        logged_in(context, url)
        yield
    finally:
        context.close()


def visits(browser: Browser, url: str, times: int) -> list[Finding]:
    """The first visit and the second, so many times."""
    taken, first, again = [], [], []
    for _ in range(times):
        context = browser.new_context()
        page, wire, seconds = logged_in(context, url)
        taken.append(seconds)
        first.append(wire.kib)
        before = wire.kib
        page.reload()
        page.get_by_text("Live", exact=True).wait_for()
        again.append(wire.kib - before)
        context.close()
    return [
        Finding('from "Log in" to a live overview, median', statistics.median(taken), " s", _LIVE_S_MAX),
        Finding("over the wire the first time", max(first), " KiB", _FIRST_KIB_MAX),
        Finding("over the wire the second time", max(again), " KiB", _AGAIN_KIB_MAX),
    ]


def page_share(browser: Browser, url: str, pid: int, seconds: float) -> Finding:
    """CPU time of the management process for each open page, without what it takes for none."""
    none = _cpu_share(pid, seconds)
    with ExitStack() as pages:
        for _ in range(_PAGES):
            pages.enter_context(open_page(browser, url))
        some = _cpu_share(pid, seconds)
    title = f"management process, of a core, for each of {_PAGES} open pages (beside: for none)"
    return Finding(title, max(0.0, some - none) / _PAGES * 100, " %", _CPU_MAX, beside=none * 100)


def _cpu_share(pid: int, seconds: float) -> float:
    began, before = time.perf_counter(), _cpu_s(pid)
    time.sleep(seconds)
    return (_cpu_s(pid) - before) / (time.perf_counter() - began)


def _cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def main(argv: Sequence[str] | None = None) -> int:
    """Measure and print; the exit code."""
    args = _options(argv)
    brokers.allow_open_files()
    broker_core, _ = brokers.own_core()
    OUTPUT.mkdir(exist_ok=True)
    findings: list[Finding] = []
    notes: list[str] = []
    with tempfile.TemporaryDirectory(dir=OUTPUT) as name:
        folder = Path(name)
        kind, port = managed_kind(folder, _SETTINGS)
        url = f"http://127.0.0.1:{port}/"
        try:
            with Broker(kind, folder / "node", broker_core) as broker, quiet_chromium(folder) as browser:
                until_served(port)
                findings = visits(browser, url, args.times)
                findings.append(page_share(browser, url, management_pid(broker.pid), args.seconds * 2))
                titles = ("p99 of QoS 1 messages, no page open", "the same with an open page")
                findings += noticed(
                    broker, partial(open_page, browser, url), args.pairs, args.seconds, titles, _RATIO_MAX
                )
        except (BrokerError, OSError) as error:
            notes.append(f"FAILED: {error}")
    conditions = f"{machine()}, {args.times} visits, {args.pairs} pairs of {args.seconds:g} s"
    return report(args, "dashboard", "beside", findings, conditions, notes)


def _options(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--times", type=int, default=5, help="visits of each kind (default: %(default)s)")
    parser.add_argument("--pairs", type=int, default=5, help="of runs without and with a page (default: %(default)s)")
    parser.add_argument("--seconds", type=float, default=6.0, help="of each run (default: %(default)s)")
    add_report_options(parser)
    return parser.parse_args(argv)


if __name__ == "__main__":
    sys.exit(main())
