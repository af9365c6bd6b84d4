"""The first moment of the management process: what is asked while it makes the first user, and finds the listeners."""

import asyncio
from collections.abc import AsyncIterator
from typing import cast

import pytest

from heliograph.config.management import DashboardConfig
from heliograph.control.proto_v1.listeners import ListenerRow
from heliograph.control.proto_v1.people import ManagementUserRow, NewManagementUser
from heliograph.management.asking.nodes import Node, Nodes
from heliograph.management.dashboard.page import ListedWebSockets
from heliograph.management.people import refusals
from heliograph.management.people.first_user import FirstUser
from heliograph.management.people.known import KnownPeople, People
from heliograph.management.people.logins import Logins
from heliograph.rpc.asks import ListQuestion, Question
from heliograph.rpc.conversation import UnreachableError
from heliograph.rpc.methods import RpcError
from heliograph.settings.secrets import Secret
from support.waiting import until

SETTINGS = DashboardConfig(default_username="ann", default_password=Secret("Tr0ub4dor-3"))
PLACE = "ws://127.0.0.1:8083/mqtt"


class SlowNode:
    """A node without a user, whose hashes and answers come when a test says so; `faults` are raised first."""

    def __init__(self) -> None:
        self.go_on = asyncio.Event()
        self.added: list[object] = []
        self.faults: list[Exception] = []
        self.asked = 0

    async def fresh(self) -> People:
        return People()

    async def hashed(self, password: str) -> str:
        self._fail()
        await self.go_on.wait()
        return f"hash of {password}"

    async def ask(self, question: Question[ManagementUserRow]) -> None:
        self.added.append(question.args)

    def own(self) -> "SlowNode":
        return self

    async def rows(self, question: ListQuestion[ListenerRow], timeout_s: float) -> list[ListenerRow]:
        self.asked += 1
        self._fail()
        await self.go_on.wait()
        return [listener()]

    def _fail(self) -> None:
        if self.faults:
            raise self.faults.pop()


def listener() -> ListenerRow:
    """A listener of WebSockets."""
    return ListenerRow("ws:default", PLACE, True, 0, None, "default", {})


@pytest.fixture
def node() -> SlowNode:
    return SlowNode()


@pytest.fixture
async def first(node: SlowNode) -> AsyncIterator[FirstUser]:
    made = FirstUser(cast(KnownPeople, node), cast(Logins, node), cast(Node, node), again_s=0.0)
    yield made
    await made.stop()


async def test_a_password_alone_is_that_of_the_user_admin(node: SlowNode, first: FirstUser) -> None:
    first.begin(DashboardConfig(default_password=Secret("public")))
    node.go_on.set()
    await until(lambda: node.added)
    (added,) = node.added
    assert isinstance(added, NewManagementUser)
    assert (added.username, added.password_hash, added.is_default) == ("admin", "hash of public", True)


async def test_who_comes_at_once_waits_for_the_user_of_the_configuration(node: SlowNode, first: FirstUser) -> None:
    first.begin(SETTINGS)
    waiting = asyncio.create_task(first.settled())
    done, _ = await asyncio.wait({waiting}, timeout=0)
    assert not done
    node.go_on.set()
    await waiting
    assert len(node.added) == 1
    await first.settled()


@pytest.mark.parametrize("fault", [refusals.too_busy(), RpcError("overloaded", "try again")])
async def test_the_first_user_is_waited_for_also_where_there_is_no_time_for_it(
    node: SlowNode, first: FirstUser, fault: Exception
) -> None:
    node.faults = [fault]
    node.go_on.set()
    first.begin(SETTINGS)
    await first.settled()
    assert len(node.added) == 1


async def test_a_node_that_does_not_answer_is_not_waited_for(node: SlowNode) -> None:
    first = FirstUser(cast(KnownPeople, node), cast(Logins, node), cast(Node, node), again_s=3600.0)
    node.faults = [UnreachableError("it is away")]
    first.begin(SETTINGS)
    await first.settled()
    assert node.added == []
    await first.stop()


async def test_pages_that_come_together_are_told_of_the_same_listeners(node: SlowNode) -> None:
    listed = ListedWebSockets(cast(Nodes, node), lambda: 1.0)
    pages = [asyncio.create_task(listed.get()) for _ in range(3)]
    await until(lambda: node.asked)
    node.go_on.set()
    assert [[place.port for place in places] for places in await asyncio.gather(*pages)] == [[8083]] * 3
    assert node.asked == 1


async def test_a_node_that_did_not_answer_is_asked_again_soon(node: SlowNode) -> None:
    now_s = [100.0]
    listed = ListedWebSockets(cast(Nodes, node), lambda: now_s[0])
    node.faults = [UnreachableError("it is away")]
    node.go_on.set()
    assert await listed.get() == []
    assert await listed.get() == []
    now_s[0] += 1.0
    assert [place.port for place in await listed.get()] == [8083]
    node.faults = [UnreachableError("it is away")]
    now_s[0] += 5.0
    assert [place.port for place in await listed.get()] == [8083]
