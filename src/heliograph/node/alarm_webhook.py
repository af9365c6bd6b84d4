"""Sends alarms to a service over HTTP, as a part of a node.

The node sends them itself: that the management process has ended is an alarm too, and a node may run without one. What
is waited for never keeps the node from its clients: one request is under way, a bounded number of messages wait, and
the library is loaded in a thread when there is a service to send to.
"""

import asyncio
import importlib
import logging
import ssl
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from types import ModuleType
from typing import TYPE_CHECKING, Final

import msgspec

from heliograph.broker import hooks
from heliograph.broker.hook_order import EVENTS
from heliograph.config.monitoring import AlarmWebhook
from heliograph.config.settings import Config
from heliograph.node.clock import uptime_us
from heliograph.node.kernel import KernelPart
from heliograph.observe.alarms import Alarm
from heliograph.observe.bounded_log import BoundedLog
from heliograph.observe.metric import Sample, counter, gauge, plain
from heliograph.outbound import Outbound
from heliograph.parts import Change, Hook, HookedPart

if TYPE_CHECKING:
    import httpx

_log = logging.getLogger(__name__)

_ATTEMPTS: Final = 3
_PAUSE_S: Final = 1.0
_OK: Final = range(200, 300)
_JSON: Final = "application/json"


class AlarmWebhookPart(HookedPart):
    """Sends a message when an alarm begins and when it ends; owned by the node.

    Those that wait when the node stops are dropped.
    """

    name = "alarm_webhook"
    metrics = (
        gauge("alarms.webhook.waiting", "Messages about alarms that wait to be sent to `alarm.webhook`."),
        counter("alarms.webhook.sent", "Messages about alarms that it took."),
        counter("alarms.webhook.failed", "Messages that it did not take in three attempts."),
        counter("alarms.webhook.dropped", "Messages that found no room to wait; the oldest go first."),
    )
    needs = ("kernel",)
    roots = ("alarm.webhook",)

    def __init__(self, config: Config, kernel: KernelPart, outbound: Outbound) -> None:
        super().__init__(kernel.broker.hooks)
        self._dialer = outbound.dialer("alarm.webhook")
        self._settings = config.alarm.webhook
        self._context: ssl.SSLContext | None = None
        self._node = config.node.name
        self._waiting: deque[bytes] = deque()
        self._sending: asyncio.Task[None] | None = None
        self._log = BoundedLog(_log, uptime_us)
        self._sent_count = self._failed_count = self._dropped_count = 0

    async def start(self) -> None:
        self._context = await asyncio.to_thread(_context_of, self._settings) if self._settings.enable else None
        self.hook_in()

    async def stop(self) -> None:
        await super().stop()
        if self._sending is not None:
            self._sending.cancel()
            await asyncio.gather(self._sending, return_exceptions=True)

    async def check(self, new: Config) -> Change | None:
        settings = new.alarm.webhook
        context = await asyncio.to_thread(_context_of, settings)

        def use() -> None:
            self._settings, self._context = settings, context
            if not settings.enable:
                self._waiting.clear()
            self.hook_in()

        return Change(use)

    def wanted(self) -> Sequence[Hook]:
        if not self._settings.enable:
            return ()
        points = ((hooks.ALARM_ACTIVATED, "activated"), (hooks.ALARM_DEACTIVATED, "deactivated"))
        return [Hook(point, partial(self._on_alarm, event), EVENTS) for point, event in points]

    def samples(self) -> list[Sample]:
        return plain(
            {
                "alarms.webhook.waiting": len(self._waiting),
                "alarms.webhook.sent": self._sent_count,
                "alarms.webhook.failed": self._failed_count,
                "alarms.webhook.dropped": self._dropped_count,
            }
        )

    def _on_alarm(self, event: str, alarm: Alarm, *_args: object) -> None:
        while len(self._waiting) >= self._settings.max_queue:
            self._waiting.popleft()
            self._dropped_count += 1
        body = {
            "event": event,
            "node": self._node,
            "name": alarm.name,
            "severity": alarm.severity,
            "message": alarm.message,
            "details": dict(alarm.details),
            "activate_at": alarm.activate_at,
            "deactivate_at": alarm.deactivate_at,
        }
        self._waiting.append(msgspec.json.encode(body))
        if self._sending is None or self._sending.done():
            self._sending = asyncio.create_task(self._send_all(), name="alarm webhook")

    async def _send_all(self) -> None:
        http = await asyncio.to_thread(_loaded)
        while self._waiting:
            settings = self._settings
            client = http.http_client(self._dialer, self._context or False, 1, settings.timeout, settings.timeout)
            try:
                while self._waiting and self._settings is settings:
                    if await self._is_taken(partial(self._ask, http, client, settings, self._waiting.popleft())):
                        self._sent_count += 1
                    else:
                        self._failed_count += 1
            finally:
                await client.aclose()

    async def _is_taken(self, ask: Callable[[], Awaitable[str]]) -> bool:
        fault = ""
        for attempt in range(_ATTEMPTS):
            if attempt:
                await asyncio.sleep(_PAUSE_S * attempt)  # for a service that starts again
            if not (fault := await ask()):
                return True
        self._log.warn("a message about an alarm could not be sent to alarm.webhook: %s", fault)
        return False

    async def _ask(self, http: ModuleType, client: "httpx.AsyncClient", settings: AlarmWebhook, body: bytes) -> str:
        """What went wrong, which names neither the URL nor a header; empty for nothing."""
        headers = {"content-type": _JSON, **{name.lower(): value for name, value in settings.headers.items()}}
        question = http.HttpQuestion("POST", settings.url, tuple(headers.items()), body)
        try:
            async with asyncio.timeout(settings.timeout):
                answer = await http.ask_http(client, question)
        except TimeoutError:
            return f"no answer within {settings.timeout:g} s"
        except Exception as error:  # noqa: BLE001 - whatever the library raises, the next message is sent
            fault: str = http.http_fault(error).text
            return fault
        return "" if answer.status in _OK else f"it answered with status {answer.status}"


def _loaded() -> ModuleType:
    return importlib.import_module("heliograph.access.backends.http")


def _context_of(settings: AlarmWebhook) -> ssl.SSLContext | None:
    return settings.ssl.context() if settings.enable and settings.url.startswith("https:") else None
