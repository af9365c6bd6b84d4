"""Users and rules in PostgreSQL and MariaDB, as MQTT clients of a node that runs notice them."""

import asyncio
import hashlib
import logging
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import bcrypt
import pytest
import pytest_asyncio

from heliograph.mqtt import packets as p
from heliograph.mqtt import reason_codes as rc
from heliograph.node.checked_config import language_faults
from heliograph.node.kernel import KernelPart
from support.mariadb import Mariadb
from support.postgresql import Postgresql
from support.running import RunningNode
from support.sql_access import KINDS, SqlServer, sql_server
from support.waiting import until

LISTENERS = """
durable_storage.flight.enable = false
listeners.tcp.default.bind = "127.0.0.1:0"
listeners.tcp.other { bind = "127.0.0.1:0", enable_authn = false }
"""
USER = "SELECT password_hash, salt, is_superuser FROM mqtt_user WHERE username = ${username}"
SECRET = b"op3n s\xc3\xa9same"

pytestmark = [pytest.mark.service, pytest.mark.asyncio(loop_scope="module")]


@pytest.fixture(scope="module", params=KINDS)
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SqlServer]:
    with sql_server(request.param, tmp_path_factory.mktemp("database")) as running:
        running.add_user("plain", SECRET.decode())
        yield running


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def node(server: SqlServer, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[RunningNode]:
    async with RunningNode(tmp_path_factory.mktemp("node"), LISTENERS) as running:
        yield running


@pytest.fixture(autouse=True)
def no_secret_is_logged(server: SqlServer, caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    with caplog.at_level(logging.DEBUG):
        yield
    said = "\n".join(map(str, (record.getMessage() + str(record.exc_info) for record in caplog.get_records("call"))))
    assert server.running.password not in said
    assert SECRET.decode() not in said


def alarms(node: RunningNode) -> dict[str, object]:
    """The alarms of backends that go on, with their details; a machine that is busy has others in time."""
    active = node.node.parts.get(KernelPart).alarms.active()
    return {alarm.name: alarm.details for alarm in active if alarm.name.startswith("backend_down/")}


def digest(name: str, text: bytes) -> str:
    return hashlib.new(name, text).hexdigest()


async def test_who_has_a_row_and_the_password_is_let_in(server: SqlServer, node: RunningNode) -> None:
    server.add_user("hashed", digest("sha256", b"salt" + SECRET), "salt")
    server.add_user("root", digest("sha256", SECRET), None, superuser=True)
    server.add_user("nobody", None, "salt")
    server.add_user("empty", "", "")
    assert await node.change(f"authentication = [ {server.authenticator(USER, '{ name = sha256 }')} ]")
    assert await node.connack("c", "hashed", SECRET) == rc.SUCCESS
    assert await node.connack("c", "hashed", SECRET, version=p.V3_1_1) == rc.SUCCESS
    assert await node.connack("c", "hashed", b"wrong") == rc.BAD_USERNAME_OR_PASSWORD
    assert await node.connack("c", "hashed", b"") == rc.BAD_USERNAME_OR_PASSWORD
    for unknown in ("someone", "", "HASHED ", "hashed\x01"):
        assert await node.connack("c", unknown, SECRET) == rc.NOT_AUTHORIZED, unknown
    assert await node.connack("c", "hashed") == rc.NOT_AUTHORIZED
    assert await node.connack("c", "nobody", b"") == rc.NOT_AUTHORIZED
    assert await node.connack("c", "empty", b"") == rc.BAD_USERNAME_OR_PASSWORD
    for username, is_superuser in (("hashed", False), ("root", True)):
        client = await node.connect("c", username=username, password=SECRET)
        assert node.client("c").is_superuser is is_superuser
        await client.leave()


async def test_columns_may_be_called_otherwise_and_the_first_row_counts(server: SqlServer, node: RunningNode) -> None:
    text = "CAST('s3' AS CHAR(2))"
    for query, expected in (
        (f"SELECT {text} AS password FROM mqtt_user WHERE username = ${{username}}", rc.SUCCESS),
        (f"SELECT {text} AS secret FROM mqtt_user WHERE username = ${{username}}", rc.NOT_AUTHORIZED),
        (f"SELECT NULL AS password_hash, {text} AS password FROM mqtt_user LIMIT 1", rc.NOT_AUTHORIZED),
        ("SELECT 's3' AS password_hash, 1 AS nr UNION SELECT 'no', 2 ORDER BY 2", rc.SUCCESS),
        ("SELECT 'no' AS password_hash, 1 AS nr UNION SELECT 's3', 2 ORDER BY 2", rc.BAD_USERNAME_OR_PASSWORD),
        (f"SELECT 's3' AS password FROM {server.rows(10_001)}", rc.NOT_AUTHORIZED),
        (f"SELECT 's3' AS password FROM {server.rows(10_000)}", rc.SUCCESS),
        ("SELECT password_hash FROM no_such_table", rc.NOT_AUTHORIZED),
        ("this is no SQL ${username}", rc.NOT_AUTHORIZED),
    ):
        assert await node.change(f"authentication = [ {server.authenticator(query)} ]")
        assert await node.connack("c", "plain", b"s3") == expected, query


async def test_passwords_may_be_hashed_by_every_algorithm(server: SqlServer, node: RunningNode) -> None:
    derived = hashlib.pbkdf2_hmac("sha512", SECRET, b"nacl", 1000).hex()
    for algorithm, stored in (
        ("{ name = plain, salt_position = suffix }", SECRET.decode() + "nacl"),
        ("{ name = md5, salt_position = disable }", digest("md5", SECRET).upper()),
        ("{ name = sha512, salt_position = suffix }", digest("sha512", SECRET + b"nacl")),
        ("{ name = pbkdf2, mac_fun = sha512, iterations = 1000 }", derived),
        ("{ name = bcrypt }", bcrypt.hashpw(SECRET, bcrypt.gensalt(4)).decode()),
    ):
        server.execute("DELETE FROM mqtt_user WHERE username = 'some'")
        server.add_user("some", stored, "nacl")
        assert await node.change(f"authentication = [ {server.authenticator(USER, algorithm)} ]")
        assert await node.connack("c", "some", SECRET) == rc.SUCCESS, algorithm
        assert await node.connack("c", "some", SECRET + b"x") == rc.BAD_USERNAME_OR_PASSWORD, algorithm


EVIL = (
    "' OR '1'='1",
    "' OR 1=1 -- ",
    "' OR 1=1 #",
    "\\' OR 1=1 -- ",
    "\\",
    "\\\\' OR 1=1 -- ",
    '" OR ""="',
    "'; DROP TABLE mqtt_user; -- ",
    "' UNION SELECT 'known', '', true -- ",
    "$1",
    "%s %(a)s %",
    "${username}",
    "縗' OR 1=1 -- ",
    "\u00bf' OR 1=1 -- ",
    "\x5c\u2019 OR 1=1",
    "*/ OR 1=1 /*",
    "x' AND pg_sleep(5)::text = '' -- ",
    "%",
    "_lain",
)
ALL = (
    "SELECT password_hash FROM mqtt_user WHERE username = ${username} AND (${clientid} = ${clientid}) "
    "AND \"${password}\" <> ''"
)


@pytest.mark.parametrize("mode", ["", "NO_BACKSLASH_ESCAPES,ANSI_QUOTES"])
async def test_nothing_that_a_client_sends_becomes_a_part_of_the_statement(
    server: SqlServer, node: RunningNode, mode: str
) -> None:
    if isinstance(server.running, Mariadb):
        server.running.as_root(f"SET GLOBAL sql_mode = '{mode}'")
    elif mode:
        return
    assert await node.change(f"authentication = [ {server.authenticator(ALL)} ]")
    assert await node.connack("c", "plain", SECRET) == rc.SUCCESS
    for evil in EVIL:
        assert await node.connack("c", evil, SECRET) == rc.NOT_AUTHORIZED, evil
        assert await node.connack(evil, "plain", b"wrong") == rc.BAD_USERNAME_OR_PASSWORD, evil
        assert await node.connack(evil, "plain", SECRET) == rc.SUCCESS, evil
        assert await node.connack("c", "plain", evil.encode()) == rc.BAD_USERNAME_OR_PASSWORD, evil
    for password in (b"\xff\xfe", b"\xbf'" + b" OR 1=1 -- ", b"known\0", b"\0", b"'" * 65_000):
        assert await node.connack("c", "plain", password) != rc.SUCCESS
    assert [row[0] for row in server.execute("SELECT COUNT(*) FROM mqtt_user WHERE username = 'plain'")] == [1]
    for number, evil in enumerate(EVIL):
        if "\\" not in evil:  # which the statements of the tests would have to write in two ways
            server.add_user(evil, f"own{number}")
            assert await node.connack("c", evil, f"own{number}".encode()) == rc.SUCCESS, evil
            server.execute(f"DELETE FROM mqtt_user WHERE password_hash = 'own{number}'")


async def test_a_placeholder_in_quotes_is_refused(server: SqlServer, node: RunningNode) -> None:
    quoted = "SELECT password_hash FROM mqtt_user WHERE username = '${username}'"
    for settings, path in (
        (f"authentication = [ {server.authenticator(quoted)} ]", "authentication.1.query"),
        (f"authorization.sources = [ {server.source(quoted)} ]", "authorization.sources.1.query"),
    ):
        [(place, problem)] = language_faults(node.load(settings))
        assert (".".join(place), problem.partition(" stands")[0]) == (path, "${username}")


async def test_a_server_that_stops_disturbs_nobody_and_is_an_alarm_until_it_is_back(
    server: SqlServer, node: RunningNode
) -> None:
    assert await node.change(f"authentication = [ {server.authenticator(USER)} ]")
    here = await node.connect("here", username="plain", password=SECRET)
    name = f"authentication:password_based:{server.kind}"
    with server.stopped():
        storm = [asyncio.create_task(node.connack(f"c{number}", "plain", SECRET)) for number in range(50)]
        other = await node.connect("other", listener="tcp:other")
        for client in (here, other):
            await client.ping()
        assert set(await asyncio.gather(*storm)) == {rc.NOT_AUTHORIZED}
        assert list(alarms(node)) == [f"backend_down/{name}"]
        assert node.node.statistics()[f"backend.connections.{name}"] == 0
    await until(lambda: not alarms(node))
    assert await node.connack("c", "plain", SECRET) == rc.SUCCESS
    await here.ping()
    for client in (here, other):
        await client.leave()


async def test_a_server_that_starts_again_is_noticed_by_no_client(server: SqlServer, node: RunningNode) -> None:
    assert await node.change(f"authentication = [ {server.authenticator(USER)} ]")
    assert await node.connack("c", "plain", SECRET) == rc.SUCCESS
    with server.stopped():
        pass
    assert await node.connack("c", "plain", SECRET) == rc.SUCCESS
    await until(lambda: not alarms(node))


async def test_a_server_that_is_down_at_the_start_keeps_no_node_from_starting(
    server: SqlServer, tmp_path: Path
) -> None:
    nowhere = server.authenticator(USER).replace(str(server.running.port), "1")
    async with RunningNode(tmp_path, LISTENERS, f"authentication = [ {nowhere} ]") as node:
        assert await node.connack("c", "plain", SECRET) == rc.NOT_AUTHORIZED
        assert len(alarms(node)) == 1
        assert await node.change(f"authentication = [ {server.authenticator(USER)} ]")
        assert await node.connack("c", "plain", SECRET) == rc.SUCCESS
        await until(lambda: not alarms(node))


async def test_a_wrong_password_of_the_node_is_an_alarm_that_does_not_show_it(
    server: SqlServer, node: RunningNode, caplog: pytest.LogCaptureFixture
) -> None:
    wrong = server.authenticator(USER).replace(server.running.password, "n0t the passw0rd'")
    assert await node.change(f"authentication = [ {wrong} ]")
    assert await node.connack("c", "plain", SECRET) == rc.NOT_AUTHORIZED
    [details] = alarms(node).values()
    assert "denied" in str(details) or "authentication failed" in str(details)
    assert "n0t" not in str(details) + caplog.text
    assert await node.change()
    await until(lambda: not alarms(node))


async def test_a_server_is_spoken_to_with_tls_if_its_certificate_is_good(server: SqlServer, node: RunningNode) -> None:
    assert await node.change(f"authentication = [ {server.authenticator(USER, more='ssl.enable = true')} ]")
    assert await node.connack("c", "plain", SECRET) == rc.NOT_AUTHORIZED
    assert "SSL" in str(alarms(node)) or "certificate" in str(alarms(node))
    if isinstance(server.running, Postgresql):
        more = f'ssl {{ cacertfile = "{server.running.cafile}" }}'
        localhost = server.authenticator(USER, more=more).replace("127.0.0.1", "localhost")
        assert await node.change(f"authentication = [ {localhost} ]")
        assert await node.connack("c", "plain", SECRET) == rc.SUCCESS
        [(is_encrypted,)] = server.execute(
            "SELECT bool_and(ssl) FROM pg_stat_ssl JOIN pg_stat_activity USING (pid) "
            "WHERE application_name = 'heliograph'"
        )
        assert is_encrypted
    assert await node.change()
    await until(lambda: not alarms(node))


async def test_a_slow_answer_is_waited_for_no_longer_than_set_and_others_go_on(
    server: SqlServer, node: RunningNode
) -> None:
    slow = f"SELECT password_hash, {server.sleeping(30)} AS slow FROM mqtt_user WHERE username = ${{username}}"
    more = "query_timeout = 300ms, pool_size = 2"
    assert await node.change(f"authentication = [ {server.authenticator(slow, more=more)} ]")
    late = [asyncio.create_task(node.connack(f"c{number}", "plain", SECRET)) for number in range(10)]
    other = await node.connect("other", listener="tcp:other")
    await other.ping()
    assert set(await asyncio.gather(*late)) == {rc.NOT_AUTHORIZED}
    await other.leave()
    assert not alarms(node)
    name = f"authentication:password_based:{server.kind}"
    assert node.node.statistics()[f"backend.late.{name}"] == 10
    assert await node.change(f"authentication = [ {server.authenticator(USER)} ]")
    assert await node.connack("c", "plain", SECRET) == rc.SUCCESS


# --- rules

RULES = (
    "SELECT permission, action, topic, qos, retain, zone, ipaddr FROM mqtt_acl WHERE username = ${username} ORDER BY id"
)


def sources(server: SqlServer, query: str = RULES, more: str = "", no_match: str = "deny") -> str:
    source = server.source(query, more)
    return f"authorization {{ no_match = {no_match}, sources = [ {source} ], cache.enable = false }}"


async def test_every_row_is_a_rule_and_the_first_one_that_matches_decides(
    server: SqlServer, node: RunningNode, caplog: pytest.LogCaptureFixture
) -> None:
    for rule in (
        ("allow", "publish", "own/${clientid}/#"),
        ("deny", "publish", "t/no"),
        ("maybe", "publish", "t/#"),
        ("allow", "all", "t/#"),
    ):
        server.add_rule("ruled", *rule)
    server.add_rule("ruled", "allow", "publish", "qos", qos="0,1", retain="false")
    server.add_rule("ruled", "allow", "publish", "zoned", zone="elsewhere")
    server.add_rule("ruled", "allow", "publish", "near", ipaddr="127.0.0.0/8")
    server.add_rule("ruled", "allow", "publish", "far", ipaddr="10.0.0.0/8")
    assert await node.change(sources(server))
    client = await node.connect("c1", username="ruled")
    for topic, expected in (
        ("own/c1/a", rc.SUCCESS),
        ("own/c2/a", rc.NOT_AUTHORIZED),
        ("t/no", rc.NOT_AUTHORIZED),
        ("t/yes", rc.SUCCESS),
        ("qos", rc.SUCCESS),
        ("zoned", rc.NOT_AUTHORIZED),
        ("near", rc.SUCCESS),
        ("far", rc.NOT_AUTHORIZED),
        ("other", rc.NOT_AUTHORIZED),
    ):
        code = await client.publish(topic, qos=1)
        assert (code == rc.NOT_AUTHORIZED) is (expected == rc.NOT_AUTHORIZED), topic
    assert await client.publish("qos", qos=2) == rc.NOT_AUTHORIZED
    assert await client.publish("qos", qos=1, retain=True) == rc.NOT_AUTHORIZED
    assert await client.subscribe("t/#") == rc.SUCCESS
    assert await client.subscribe("own/c1/#") == rc.NOT_AUTHORIZED
    assert "maybe" in caplog.text
    await client.leave()
    for clientid, username in (("c2", "someone"), ("c3", None), ("c4", "")):
        stranger = await node.connect(clientid, username=username)
        assert await stranger.subscribe("t/yes") == rc.NOT_AUTHORIZED
        await stranger.leave()


async def test_no_name_of_a_client_becomes_a_part_of_the_statement_or_a_wildcard(
    server: SqlServer, node: RunningNode
) -> None:
    query = "SELECT permission, action, topic FROM mqtt_acl WHERE username = ${username} OR username = ${clientid}"
    server.add_rule("rules", "allow", "all", "own/${clientid}")
    assert await node.change(sources(server, query))
    for evil in (*EVIL, "+", "#"):
        client = await node.connect(evil, username=evil)
        assert await client.subscribe("t/a") == rc.NOT_AUTHORIZED, evil
        await client.leave()
        client = await node.connect(evil, username="rules")
        assert await client.subscribe("own/other") == rc.NOT_AUTHORIZED, evil
        await client.leave()


async def test_a_subscription_ends_with_the_row_that_allowed_it(server: SqlServer, node: RunningNode) -> None:
    for name in ("leaving", "staying"):
        server.add_rule(name, "allow", "all", "t/#")
    assert await node.change(sources(server).replace("cache.enable = false", "cache.ttl = 300ms"))
    clients = {name: await node.connect(name, username=name) for name in ("leaving", "staying")}
    for name, client in clients.items():
        assert await client.subscribe(f"t/{name}") == rc.SUCCESS
    assert await clients["staying"].publish("t/leaving", b"the last", qos=1) == rc.SUCCESS
    assert await clients["leaving"].payloads() == [b"the last"]
    withdrawn = node.node.statistics()["subscriptions.withdrawn"]
    server.remove_rules("leaving")
    for client in clients.values():  # Clients that were sent something since their last check are checked again.
        await client.publish("t/none", qos=1)
    await until(lambda: node.node.statistics()["subscriptions.withdrawn"] > withdrawn)
    assert node.node.statistics()["subscriptions.withdrawn"] == withdrawn + 1
    assert await clients["staying"].publish("t/leaving", b"gone", qos=1) == rc.SUCCESS
    assert await clients["leaving"].payloads() == []
    for client in clients.values():
        await client.leave()


async def test_clients_keep_their_rights_while_the_server_is_down(server: SqlServer, node: RunningNode) -> None:
    server.add_rule("kept", "allow", "all", "t/#")
    assert await node.change(sources(server))
    here = await node.connect("here", username="kept")
    assert await here.subscribe("t/#") == rc.SUCCESS
    with server.stopped():
        late = await node.connect("late", username="kept")
        assert await late.publish("t/1", qos=1) == rc.NOT_AUTHORIZED
        assert list(alarms(node)) == [f"backend_down/authorization:{server.kind}"]
        assert await here.publish("t/2", b"two", qos=1) == rc.SUCCESS
    await until(lambda: not alarms(node))
    assert await here.payloads() == [b"two"]
    back = await node.connect("back", username="kept")
    assert await back.publish("t/3", qos=1) == rc.SUCCESS
    for client in (here, late, back):
        await client.leave()


async def test_a_slow_source_holds_up_only_those_who_wait_for_it(server: SqlServer, node: RunningNode) -> None:
    slow = (
        f"SELECT permission, action, topic, {server.sleeping(30)} AS slow FROM mqtt_acl WHERE username = ${{username}}"
    )
    assert await node.change(sources(server, slow, "query_timeout = 400ms, pool_size = 2"))
    server.add_rule("slow", "allow", "all", "#")
    waiting = await node.connect("waiting", username="slow")
    asked = asyncio.create_task(waiting.publish("t/1", qos=1))
    other = await node.connect("other", username="nobody")
    await other.ping()
    assert await asked == rc.NOT_AUTHORIZED
    for client in (waiting, other):
        await client.leave()
    assert not alarms(node)
