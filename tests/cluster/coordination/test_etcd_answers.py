"""What the coordinator makes of answers that no healthy etcd gives."""

import asyncio

import httpx
import pytest

from heliograph.cluster.coordination.etcd import EtcdCoordinator, EtcdLogin
from heliograph.cluster.coordination.interface import CoordinatorRefusedError


async def test_calls_that_fail_together_go_on_with_the_same_member() -> None:
    asked: list[str] = []
    both = asyncio.Event()

    async def answer(request: httpx.Request) -> httpx.Response:
        asked.append(request.url.host)
        if request.url.host == "dead":
            if len(asked) == 2:
                both.set()
            await both.wait()
            raise httpx.ConnectError("refused", request=request)
        return httpx.Response(200, json={"header": {"revision": "7"}})

    coordinator = EtcdCoordinator(["http://dead", "http://alive"], httpx.MockTransport(answer))
    found = await asyncio.gather(coordinator.get("/a"), coordinator.get("/b"))
    assert [one.revision for one in found] == [7, 7]
    assert asked == ["dead", "dead", "alive", "alive"]
    await coordinator.close()


async def test_a_member_that_takes_no_token_refuses() -> None:
    def answer(request: httpx.Request) -> httpx.Response:
        if request.url.path.endswith("/authenticate"):
            return httpx.Response(200, json={"token": "t.1"})
        return httpx.Response(401, json={"code": 16, "message": "etcdserver: invalid auth token"})

    coordinator = EtcdCoordinator(["http://one"], httpx.MockTransport(answer), EtcdLogin("node", "secret"))
    with pytest.raises(CoordinatorRefusedError, match="http://one: etcdserver: invalid auth token"):
        await coordinator.get("/a")
    await coordinator.close()
