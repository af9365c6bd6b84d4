"""The settings of Prometheus in the answer of the request that changes them, apart from a node."""

import asyncio
from types import SimpleNamespace
from typing import cast

from fastapi import Request

from heliograph.config.prometheus import PrometheusConfig
from heliograph.control.proto_v1.conf import ConfOutcome, ConfPlanned
from heliograph.management.api.prometheus import update_prometheus
from heliograph.management.web.asked_nodes import AskedNodes


class _Process:
    """The state of the process, and a node that tells it of an earlier change before it tells of this one."""

    def __init__(self) -> None:
        self.settings = SimpleNamespace(prometheus=PrometheusConfig())
        self.changed = asyncio.Event()

    def tell(self, prometheus: PrometheusConfig) -> None:
        """The node tells its settings."""
        self.settings = SimpleNamespace(prometheus=prometheus)
        self.changed.set()
        self.changed = asyncio.Event()

    async def ask(self, *asked: object) -> ConfOutcome:
        """Change the configuration."""
        loop = asyncio.get_running_loop()
        loop.call_soon(self.tell, PrometheusConfig())  # that was a change of something else
        loop.call_later(0.05, self.tell, PrometheusConfig(enable_basic_auth=True))
        path = "prometheus.enable_basic_auth"
        return ConfOutcome(1, (ConfPlanned(path, "false", "true", "live"),))


async def test_the_answer_has_the_settings_of_this_change() -> None:
    process = _Process()
    request = cast(Request, SimpleNamespace(app=SimpleNamespace(state=process)))
    nodes = cast(AskedNodes, SimpleNamespace(own=process))
    answer = await update_prometheus({"enable_basic_auth": True}, request, nodes)
    assert answer["enable_basic_auth"] is True
