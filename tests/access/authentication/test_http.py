"""An HTTP service that says whether clients may connect, through clients of a node that runs."""

import json
import logging
import threading
from collections.abc import AsyncIterator, Iterator, Mapping

import pytest
import pytest_asyncio

from heliograph.access.users.scram import scram_keys
from heliograph.mqtt import packets as p
from heliograph.mqtt import reason_codes as rc
from heliograph.node.kernel import KernelPart
from support.mosquitto import free_port
from support.running import RunningNode
from support.scram import ScramClient
from support.waiting import until
from support.webhook import Answer, Posted, Webhook, webhook

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.service]

LISTENERS = """
listeners.tcp.default.bind = "127.0.0.1:0"
listeners.tcp.own { bind = "127.0.0.1:0", authentication = { mechanism = cinfo, checks = [
  { is_match = "true", result = allow } ] } }
"""
JSON = "application/json"


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def node(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[RunningNode]:
    async with RunningNode(tmp_path_factory.mktemp("http"), LISTENERS) as running:
        yield running


@pytest.fixture(scope="module")
def service() -> Iterator[Webhook]:
    with webhook() as running:
        yield running


def http(
    url: str, more: str = 'body { username = "${username}", password = "${password}" }', method: str = "post"
) -> str:
    """The settings of a chain of one."""
    return (
        f'authentication = {{ mechanism = password_based, backend = http, method = {method}, url = "{url}", {more} }}'
    )


def saying(body: Mapping[str, object], content_type: str = JSON) -> Answer:
    """An answer with a body."""
    return Answer(200, {"Content-Type": content_type}, json.dumps(body).encode())


def decide(request: Posted) -> Answer:
    """Knows one user and one superuser."""
    asked = json.loads(request.body)
    if asked["password"] != "right":
        return saying({"result": "deny"})
    if asked["username"] == "unknown":
        return saying({"result": "ignore"})
    attributes = {"site": "one", "bad name": "x"}
    return saying({"result": "allow", "is_superuser": asked["username"] == "admin", "client_attrs": attributes})


async def test_right_wrong_and_unknown_users(node: RunningNode, service: Webhook) -> None:
    service.answer = decide
    assert await node.change(http(service.url + "/auth"))
    assert await node.connack("c", "u", b"right") == rc.SUCCESS
    assert await node.connack("c", "u", b"wrong") == rc.NOT_AUTHORIZED
    assert await node.connack("c", "unknown", b"right") == rc.NOT_AUTHORIZED
    assert await node.connack("c", "unknown", b"wrong") == rc.NOT_AUTHORIZED
    client = await node.connect("c", username="admin", password=b"right")
    assert node.client("c").is_superuser
    assert node.client("c").client_attrs == {"site": "one"}
    await client.leave()
    request = service.requests[-1]
    assert (request.method, request.path) == ("POST", "/auth")
    assert request.headers["content-type"] == JSON


async def test_values_are_encoded_for_the_place_where_they_stand(node: RunningNode, service: Webhook) -> None:
    service.answer = lambda request: Answer(204)
    more = 'headers { x-client = "${clientid}" }, body { "p" = "${password}" }'
    assert await node.change(http(service.url + "/a/${username}?q=${peerhost}&z=${zone}", more, "get"))
    assert await node.connack("c", "x y/&?#", b"a&b=c") == rc.SUCCESS
    request = service.requests[-1]
    assert request.path == "/a/x+y%2F%26%3F%23?q=127.0.0.1&z=default&p=a%26b%3Dc"
    assert request.headers["x-client"] == "c"
    count = len(service.requests)
    assert await node.connack("c", "..", b"p") == rc.NOT_AUTHORIZED
    assert await node.connack("a\u0085\x7fb: c", "u", b"p") == rc.NOT_AUTHORIZED
    assert len(service.requests) == count
    assert await node.change(http(service.url))
    assert await node.connack("c", "u", b"\xff") == rc.NOT_AUTHORIZED
    assert len(service.requests) == count


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        (Answer(204), rc.SUCCESS),
        (Answer(200), rc.NOT_AUTHORIZED),
        (Answer(302, {"Location": "/other"}), rc.NOT_AUTHORIZED),
        (Answer(500), rc.NOT_AUTHORIZED),
        (saying({"result": "allow"}), rc.SUCCESS),
        (saying({"result": "allow"}, "text/html"), rc.NOT_AUTHORIZED),
        (saying({"result": "allow", "expire_at": 1}), rc.BAD_USERNAME_OR_PASSWORD),
        (saying({"result": "allow", "acl": [{"permission": "allow"}]}), rc.BAD_USERNAME_OR_PASSWORD),
        (saying({"result": "allow", "client_attrs": ["x"]}), rc.NOT_AUTHORIZED),
        (Answer(200, {"Content-Type": JSON}, b'{"result": "allow"' + b" " * (2 << 20) + b"}"), rc.NOT_AUTHORIZED),
    ],
)
async def test_what_an_answer_means(node: RunningNode, service: Webhook, answer: Answer, code: int) -> None:
    service.answer = lambda request: answer
    assert await node.change(http(service.url))
    count = len(service.requests)
    assert await node.connack("c", "u", b"p") == code
    assert len(service.requests) == count + 1


async def test_a_slow_service_keeps_nobody_else_waiting(node: RunningNode, service: Webhook) -> None:
    go_on = threading.Event()

    def answer(request: Posted) -> Answer:
        go_on.wait(20)
        return Answer(204)

    service.answer = answer
    assert await node.change(http(service.url, "pool_size = 2"))
    others = await node.connect("other", listener="tcp:own")
    waiting = [await node.open() for _ in range(6)]
    for number, client in enumerate(waiting):
        client.send_connect(f"w{number}", username="u", password=b"p")
    assert await others.subscribe("t") == 0
    await others.publish("t", b"x", 1)
    assert await others.payloads() == [b"x"]
    assert await node.connack("new", listener="tcp:own") == rc.SUCCESS
    go_on.set()
    assert [(await client.take(p.Connack)).code for client in waiting] == [rc.SUCCESS] * 6
    for client in waiting:
        await client.leave()
    await others.leave()


async def test_an_answer_that_does_not_come_in_time_is_an_error(node: RunningNode, service: Webhook) -> None:
    go_on = threading.Event()
    service.answer = lambda request: Answer(204) if go_on.wait(20) else Answer(500)
    try:
        assert await node.change(http(service.url, "request_timeout = 50ms"))
        assert await node.connack("c", "u", b"p") == rc.NOT_AUTHORIZED
        assert await node.change(http(service.url) + "\nauthentication_settings.timeout = 100ms")
        assert await node.connack("c", "u", b"p") == rc.NOT_AUTHORIZED
        assert node.node.parts.statistics()["authenticator.error.global.password_based:http"] == 1
    finally:
        go_on.set()
    assert await node.change(http(service.url))
    assert await node.connack("c", "u", b"p") == rc.SUCCESS


async def test_a_service_that_is_down_is_an_alarm_and_what_that_means_is_a_setting(
    node: RunningNode, caplog: pytest.LogCaptureFixture
) -> None:
    def alarms() -> list[str]:
        return [alarm.name for alarm in node.node.parts.get(KernelPart).alarms.active()]

    name = "backend_down/authentication:password_based:http"
    with caplog.at_level(logging.DEBUG):
        with webhook(free_port()) as service:  # which no other program gets while nothing listens there
            service.answer = lambda request: Answer(204, {"Connection": "close"})
            more = 'headers { authorization = "secret-of-service" }, body { p = "${password}" }'
            assert await node.change(http(service.url, more))
            assert await node.connack("c", "u", b"secret-of-client") == rc.SUCCESS
            port = service.port
        assert await node.connack("c", "u", b"secret-of-client") == rc.NOT_AUTHORIZED
        await until(lambda: name in alarms())
        deny = http(f"http://127.0.0.1:{port}", more) + "\nauthentication_settings.on_failure = deny"
        assert await node.change(deny)
        assert await node.connack("c", "u", b"secret-of-client") == rc.SERVER_UNAVAILABLE
        with webhook(port) as service:
            await until(lambda: name not in alarms())
            assert await node.connack("c", "u", b"secret-of-client") == rc.SUCCESS
        assert await node.change()
        assert name not in alarms()
    assert "secret-of" not in caplog.text


async def test_scram_with_keys_that_the_service_has(node: RunningNode, service: Webhook) -> None:
    keys = scram_keys("sha256", b"pencil", bytes(range(16)), 4096)
    known = {"stored_key": keys.stored_key.hex(), "server_key": keys.server_key.hex().upper()}
    known["salt"] = bytes(range(16)).hex()

    def answer(request: Posted) -> Answer:
        if json.loads(request.body) != {"name": "ann"}:
            return Answer(404)
        return saying(known | {"is_superuser": True, "client_attrs": {"site": "one"}})

    async def outcome(name: str = "ann", password: bytes = b"pencil", username: str | None = None) -> int:
        connection = await node.open()
        code = await ScramClient("sha256", name, password).connect(connection, username)
        if code == rc.SUCCESS:
            info = node.client("c")
            assert (info.username, info.is_superuser, info.client_attrs) == ("ann", True, {"site": "one"})
        await connection.leave()
        return code

    service.answer = answer
    asked = f'method = post, url = "{service.url}", body {{ name = "${{username}}" }}'
    assert await node.change(f"authentication = {{ mechanism = scram, backend = http, {asked} }}")
    assert await outcome() == rc.SUCCESS
    assert await outcome(username="ann") == rc.SUCCESS
    assert await outcome(username="bob") == rc.NOT_AUTHORIZED
    assert await outcome(password=b"wrong") == rc.NOT_AUTHORIZED
    assert await outcome("bob") == rc.NOT_AUTHORIZED
    known["stored_key"] = "00"
    assert await outcome() == rc.NOT_AUTHORIZED
    known["stored_key"] = "no hex"
    assert await outcome() == rc.NOT_AUTHORIZED
    assert await node.connack("c", "ann", b"pencil") == rc.NOT_AUTHORIZED


async def test_answers_may_be_kept_but_those_that_fail_are_not(node: RunningNode, service: Webhook) -> None:
    service.answer = decide
    assert await node.change(http(service.url) + "\nauthentication_settings.node_cache.enable = true")
    count = len(service.requests)
    for _ in range(3):
        assert await node.connack("c", "u", b"right") == rc.SUCCESS
        assert await node.connack("c", "u", b"wrong") == rc.NOT_AUTHORIZED
    assert len(service.requests) == count + 2
    service.answer = lambda request: Answer(503)
    for _ in range(2):
        assert await node.connack("c", "other", b"right") == rc.NOT_AUTHORIZED
    assert len(service.requests) == count + 4
    assert await node.change()
