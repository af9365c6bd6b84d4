"""Sources that do not answer at once, or not at all: what their clients notice, and others do not."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest

from access.authorization.world import World
from heliograph.access.acl.rows import rules_of_rows
from heliograph.access.acl.rules import Rules
from heliograph.access.authorization.entries import ChainEntry
from heliograph.access.authorization.interface import AskedSource, AuthorizationSource, RulesSource
from heliograph.broker.actions import Action, publish_action
from heliograph.broker.client import ClientInfo
from heliograph.channel.authorization import Authorizer
from heliograph.mqtt import packets as p
from heliograph.mqtt import reason_codes as rc
from heliograph.node.kernel import KernelPart
from support.packets import properties
from support.waiting import until

DENIED = rc.NOT_AUTHORIZED


class SlowRules(RulesSource):
    """Rules that are there when a test says so."""

    def __init__(self) -> None:
        super().__init__("mysql")
        self.fetched: list[str] = []
        self.is_open = asyncio.Event()
        self.fault: Exception | None = None
        self.topics = ["t/#"]

    def fetch(self, client: ClientInfo) -> Awaitable[Rules]:
        self.fetched.append(client.clientid)
        return self._rules(self.topics)

    async def _rules(self, topics: list[str]) -> Rules:
        await self.is_open.wait()
        if self.fault is not None:
            raise self.fault
        return rules_of_rows({"permission": "allow", "action": "all", "topic": topic} for topic in topics)


class Service(AskedSource):
    """Says what a test says for each topic, at once or later."""

    def __init__(self, says: Callable[[str], str | Awaitable[str]]) -> None:
        super().__init__("http")
        self.asked: list[str] = []
        self._says = says

    def ask(self, client: ClientInfo, action: Action, topic: str) -> str | Awaitable[str]:
        self.asked.append(f"{client.clientid} {action.kind} {action.qos} {topic}")
        return self._says(topic)


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    async with World(tmp_path, '{allow, {client, "other"}, all, all}.\n') as node:
        yield node


def use(world: World, *sources: AuthorizationSource) -> None:
    """Ask these sources behind that of the file."""
    chain = world.authorization.chain
    entries = [chain.entries[0]]
    for source in sources:
        entry = ChainEntry(source.type)
        entry.replace(source, is_asked=isinstance(source, AskedSource))
        entries.append(entry)
    chain.use(entries)
    world.node.broker.rights.drop_cached()


async def test_a_client_waits_for_its_rules_once_and_others_do_not(world: World) -> None:
    slow = SlowRules()
    use(world, slow)
    client, other = await world.connect("c"), await world.connect("other")
    waiting = [asyncio.create_task(client.publish(topic, b"x", 1)) for topic in ("t/a", "u", "t/b")]
    assert await other.publish("any", b"x", 1) != DENIED
    assert not any(task.done() for task in waiting)
    slow.is_open.set()
    assert [await task == DENIED for task in waiting] == [False, True, False]
    assert await client.publish("t/c", b"x", 1) != DENIED
    assert slow.fetched == ["c"]


async def test_filters_of_one_subscribe_wait_together(world: World) -> None:
    slow = SlowRules()
    use(world, slow)
    client = await world.connect("c")
    entries = [p.SubscribeEntry(f"{'t' if n % 2 else 'u'}/{n}", 0, False, False, 0) for n in range(100)]
    client.send(p.Subscribe(1, entries, properties()))
    slow.is_open.set()
    codes = (await client.take(p.Suback)).codes
    assert [code == DENIED for code in codes] == [n % 2 == 0 for n in range(100)]
    assert slow.fetched == ["c"]


async def test_rules_are_asked_for_again_when_they_are_too_old(world: World) -> None:
    slow = SlowRules()
    slow.is_open.set()
    use(world, slow)
    world.authorization.waiting.ttl_us = 0
    client = await world.connect("c")
    assert await client.publish("t/a", b"x", 1) != DENIED
    slow.topics = ["u/#"]
    assert await client.publish("t/b", b"x", 1) == DENIED
    assert await client.publish("u/b", b"x", 1) != DENIED


async def test_a_source_that_fails_leaves_its_earlier_rules_and_every_subscription(world: World) -> None:
    slow = SlowRules()
    slow.is_open.set()
    use(world, slow)
    client = await world.connect("c")
    assert await client.subscribe("t/#") == 0
    slow.fault = ConnectionError("the database is away")
    world.authorization.forget_rules()
    assert await client.publish("t/a", b"mine", 1) == 0
    assert await client.payloads() == [b"mine"]
    fresh = await world.connect("d")
    assert await fresh.publish("t/a", b"x", 1) == DENIED
    authorization, client_info = world.authorization, world.client("d")
    kept = authorization.chain.rights_of(client_info).kept[1]
    said = await authorization.waiting.ask(kept, client_info, publish_action(0, False), "t/a")
    assert (said.result, said.why) == ("error", "the database is away")


async def test_a_service_is_asked_about_each_action_and_what_it_says_is_remembered(world: World) -> None:
    async def later(answer: str) -> str:
        return answer

    service = Service(lambda topic: later(topic) if topic in ("allow", "deny") else topic)
    use(world, service)
    client = await world.connect("c")
    for topic, denied in (("allow", False), ("deny", True), ("ignore", True), ("nomatch", True), ("oops", True)):
        assert (await client.publish(topic, b"x", 1) == DENIED) == denied
        assert (await client.publish(topic, b"x", 1) == DENIED) == denied
    assert await client.subscribe("allow", 2) == 2
    assert service.asked == [
        *(f"c publish 1 {topic}" for topic in ("allow", "deny", "ignore", "nomatch", "oops", "oops")),
        "c subscribe 2 allow",
    ]
    entry = world.authorization.chain.entries[1]
    assert entry.statistics() == {"total": 7, "allow": 2, "deny": 1, "nomatch": 1, "ignore": 1, "error": 2}


async def test_a_service_that_raises_leaves_it_to_the_next_source(world: World) -> None:
    def fail(topic: str) -> str:
        raise ConnectionError("refused")

    slow = SlowRules()
    slow.is_open.set()
    use(world, Service(fail), slow)
    client = await world.connect("c")
    assert await client.publish("t/a", b"x", 1) != DENIED
    assert await client.publish("u/a", b"x", 1) == DENIED


async def test_a_decision_that_is_waited_for_counts_the_sources_that_there_are_then(world: World) -> None:
    slow = SlowRules()
    use(world, slow)
    client = await world.connect("c")
    waiting = asyncio.create_task(client.publish("t/a", b"x", 1))
    other = await world.connect("other")
    await other.ping()
    use(world, Service(lambda topic: "deny"))
    slow.is_open.set()
    assert await waiting == DENIED


async def test_a_check_that_is_asked_for_leaves_rules_of_a_source_that_cannot_be_asked(world: World) -> None:
    slow = SlowRules()
    slow.is_open.set()
    use(world, slow)
    client = await world.connect("c")
    assert await client.publish("t/a", b"x", 1) != DENIED
    rechecks = world.node.parts.get(KernelPart).context.rechecks
    slow.fault = ConnectionError("down")
    rechecks.check("c")
    assert await client.publish("t/a", b"x", 1) != DENIED
    assert slow.fetched == ["c", "c"], "it is asked again"
    rechecks.check("c", is_another=True)
    assert await client.publish("t/a", b"x", 1) == DENIED, "what another user may do is not known"


async def test_an_answer_about_what_the_client_was_before_is_not_remembered(world: World) -> None:
    answers: list[asyncio.Future[str]] = []

    def later(topic: str) -> Awaitable[str]:
        answers.append(asyncio.get_running_loop().create_future())
        return answers[-1]

    use(world, Service(later))
    client = await world.connect("c")
    session = world.node.parts.get(KernelPart).context.sessions.held("c")
    authorizer = None if session is None else session.sender.access_check
    assert isinstance(authorizer, Authorizer)
    assert not authorizer.may_receive("t", 1)  # asked for a message
    await asyncio.sleep(0)
    authorizer.forget_rights()  # as after an authentication that took rights away
    assert not authorizer.may_receive("t", 1)
    await asyncio.sleep(0)
    answers[0].set_result("allow")
    await client.ping()
    assert not authorizer.may_receive("t", 1)
    answers[1].set_result("deny")
    await client.ping()
    assert not authorizer.may_receive("t", 1)
    assert len(answers) == 2


async def test_a_client_that_leaves_waits_for_nothing(world: World) -> None:
    slow = SlowRules()
    use(world, slow)
    client = await world.connect("c")
    client.send_bytes(b"\x32\x08\x00\x03t/a\x00\x01\x00")
    client.close()
    slow.is_open.set()
    again = await world.connect("c")
    assert await again.publish("t/a", b"x", 1) != DENIED


async def test_nothing_is_asked_about_the_publishers_of_retained_messages(world: World) -> None:
    earlier, slow, service = SlowRules(), SlowRules(), Service(lambda topic: "allow")
    for source in (earlier, slow):
        source.topics = ["kept/#"]
        source.is_open.set()
    use(world, earlier)
    publisher = await world.connect("p")
    for number in range(20):
        assert await publisher.publish(f"kept/{number}", b"x", 1, retain=True) != DENIED
    await publisher.leave()
    use(world, slow, service)
    client = await world.connect("c")
    assert await client.subscribe("kept/#") == 0
    assert len(await client.payloads()) == 20
    assert slow.fetched == ["c"]
    assert service.asked == []


async def test_rules_of_a_source_that_was_replaced_meanwhile_do_not_count(world: World) -> None:
    earlier, later = SlowRules(), SlowRules()
    use(world, earlier)
    later.topics = ["u/#"]
    later.is_open.set()
    client, other = await world.connect("c"), await world.connect("other")
    waiting = [asyncio.create_task(client.publish(topic, b"x", 1)) for topic in ("t/a", "u/a")]
    await other.ping()
    world.authorization.chain.entries[1].replace(later, is_asked=False)
    world.node.broker.rights.drop_cached()
    earlier.is_open.set()
    assert [await task == DENIED for task in waiting] == [True, False]
    assert (earlier.fetched, later.fetched) == (["c"], ["c"])


async def test_rules_that_were_on_their_way_when_rights_are_checked_again_do_not_do(world: World) -> None:
    slow = SlowRules()
    slow.is_open.set()
    use(world, slow)
    client = await world.connect("c")
    client.send(p.Subscribe(1, [p.SubscribeEntry("t/a", 0, False, False, 0)], properties()))
    assert (await client.take(p.Suback)).codes == [rc.SUCCESS]
    slow.is_open.clear()
    rechecks = world.node.parts.get(KernelPart).context.rechecks
    checks = [rechecks.check("c")]
    slow.topics = ["u/#"]
    checks.append(rechecks.check("c"))
    slow.is_open.set()
    await until(lambda: all(check is not None and check.done.is_resolved for check in checks))
    assert [check.dropped for check in checks if check is not None] in ([["t/a"], []], [[], ["t/a"]])
    assert slow.fetched == ["c", "c", "c"]


async def test_a_client_whose_source_could_not_be_asked_is_checked_again_without_a_message(world: World) -> None:
    slow = SlowRules()
    slow.is_open.set()
    use(world, slow)
    client = await world.connect("c")
    client.send(p.Subscribe(1, [p.SubscribeEntry("t/a", 0, False, False, 0)], properties()))
    assert (await client.take(p.Suback)).codes == [rc.SUCCESS]
    rechecks = world.node.parts.get(KernelPart).context.rechecks
    rechecks.period_us = 0
    slow.fault = OSError("the server is away")
    await until(lambda: len(slow.fetched) > 2)
    slow.fault, slow.topics = None, ["u/#"]
    await until(lambda: world.node.statistics()["subscriptions.withdrawn"] == 1)
