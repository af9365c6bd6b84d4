"""Pushes the metrics of the node to a push gateway."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

from heliograph.config.prometheus import PushGateway
from heliograph.management.prometheus.families import CONTENT_TYPE
from heliograph.outbound import Outbound
from heliograph.settings.url_secrets import masked_url

if TYPE_CHECKING:
    import httpx

_log = logging.getLogger(__name__)

_TIMEOUT_S: Final = 10.0


def target_of(gateway: PushGateway, node_name: str) -> str:
    name, _, host = node_name.partition("@")
    job = gateway.job_name.replace("${name}", name).replace("${host}", host)
    return f"{gateway.url.rstrip('/')}/metrics/job/{quote(job, safe='/~@:')}"


class Pusher:
    """Pushes as long as the settings say so; owned by the program.

    Args:
        scrape: Makes the text.
        outbound: What opens the connections.
    """

    def __init__(self, node_name: str, scrape: Callable[[], Awaitable[str]], outbound: Outbound) -> None:
        self._dialer = outbound.dialer("prometheus.push_gateway")
        self._node_name = node_name
        self._scrape = scrape
        self._gateway = PushGateway()
        self._task: asyncio.Task[None] | None = None
        self._has_failed = False

    async def use(self, gateway: PushGateway) -> None:
        if gateway == self._gateway:
            return
        await self.stop()
        self._gateway = gateway
        if gateway.enable:
            self._task = asyncio.create_task(self._run(gateway), name="push gateway")

    async def stop(self) -> None:
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def _run(self, gateway: PushGateway) -> None:
        import httpx  # most push nothing

        from heliograph.outbound.http import AsyncDialedTransport

        transport = AsyncDialedTransport(self._dialer)
        async with httpx.AsyncClient(transport=transport, timeout=_TIMEOUT_S, trust_env=False) as client:
            while True:
                try:
                    await self._push(client, gateway)
                    if self._has_failed:
                        _log.info("metrics are pushed to %s again", masked_url(gateway.url))
                    self._has_failed = False
                except Exception as error:  # noqa: BLE001 - the next attempt may succeed, whatever it is
                    if not self._has_failed:  # once, not at each attempt
                        _log.error("metrics cannot be pushed to %s: %s", masked_url(gateway.url), error)
                    self._has_failed = True
                await asyncio.sleep(gateway.interval)  # the pace that was set

    async def _push(self, client: "httpx.AsyncClient", gateway: PushGateway) -> None:
        text = await self._scrape()
        headers = {"content-type": CONTENT_TYPE, **gateway.headers}
        target = target_of(gateway, self._node_name)
        answer = await client.request(gateway.method.upper(), target, content=text.encode(), headers=headers)
        answer.raise_for_status()
