"""A page that is left open for long does not grow."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from support.browser import Dashboard, expect
from support.management import ManagedNode

if TYPE_CHECKING:
    from playwright.sync_api import Browser, CDPSession, Page, Route

# The page takes in thousands of events.
pytestmark = [pytest.mark.service, pytest.mark.timeout(400)]

_HOUR: int = 3600  # events of an hour
_GROWTH_BYTES_MAX = 1 << 20  # in an hour


def overview(managed: ManagedNode) -> dict[str, Any]:
    """What the stream of live values begins with."""
    with managed.api.stream("GET", "/heliograph/live", params={"of": "overview"}) as stream:
        for line in stream.iter_lines():
            if line.startswith("data: "):
                found: dict[str, Any] = json.loads(line.removeprefix("data: "))
                return found
    raise AssertionError("the stream has no event")


def hours(first: dict[str, Any], begin: int, count: int, last: int) -> str:
    """So many hours of one event each second; the last tells of so many connections."""
    events = [
        {**first, "at": first["at"] + second, "connections": second % 100} for second in range(begin, count * _HOUR)
    ]
    events[-1]["connections"] = last
    return "".join(f"event: overview\ndata: {json.dumps(event)}\n\n" for event in events)


def heap_bytes(session: CDPSession) -> int:
    """What the page's scripts hold, after all that can be freed was freed."""
    session.send("HeapProfiler.collectGarbage")
    return int(session.send("Runtime.getHeapUsage")["usedSize"])


@pytest.mark.parametrize("more", [1, pytest.param(4, marks=pytest.mark.long)])
def test_an_overview_that_is_open_for_hours_holds_no_more(browser: Browser, managed: ManagedNode, more: int) -> None:
    first = overview(managed)
    bodies = [hours(first, 0, 1, 424242), hours(first, _HOUR, 1 + more, 535353)]

    def answer(route: Route) -> None:
        if bodies:
            route.fulfill(body=bodies.pop(0), content_type="text/event-stream")
        else:
            route.abort()

    with Dashboard(browser, managed) as dashboard:
        dashboard.expected_errors.append("ERR_FAILED")
        page: Page = dashboard.open().page
        session = page.context.new_cdp_session(page)
        page.route("**/heliograph/live*", answer)
        dashboard.log_in()
        expect(page.get_by_text("424,242").first).to_be_visible()
        before = heap_bytes(session)
        page.get_by_text("535,353").first.wait_for(timeout=200_000)
        assert heap_bytes(session) - before < more * _GROWTH_BYTES_MAX
