"""Limits by address: who guesses passwords is slow, and nobody else is."""

import asyncio
import logging
from ipaddress import ip_network
from pathlib import Path

import pytest

from heliograph.access.bans.address_limits import ConnectRates, Gate
from heliograph.access.bans.failed_logins import FailedLogins
from heliograph.access.bans.known_logins import DEVICES_MAX, DEVICES_OF_NAME_MAX, KnownLogins
from heliograph.broker.authentication import AuthStep
from heliograph.broker.client import ClientInfo
from heliograph.broker.hooks import STOP
from heliograph.config.address_limits import AddressLimits, LoginBackoff
from heliograph.mqtt import packets as p
from heliograph.mqtt import reason_codes as rc
from heliograph.settings.units import Rate
from support.running import RunningNode
from support.services import Node

SECOND = 1_000_000
LIMITS = AddressLimits(login_backoff=LoginBackoff(max_failures=3, max_failures_of_address=6))


class World:
    """A gate, and clients that come to it."""

    def __init__(self, settings: AddressLimits = LIMITS) -> None:
        self.now_us = 0
        self.gate = Gate(settings, lambda: self.now_us, logging.getLogger("limits"))

    def tries(self, host: str, name: str | None, code: int = rc.BAD_USERNAME_OR_PASSWORD, clientid: str = "c") -> int:
        """A client connects, and is answered with `code` if its password is looked at: what it gets."""
        client = ClientInfo(clientid, name, f"[{host}]:1" if ":" in host else f"{host}:1")
        answer = self.gate.on_client_connect(client, None, rc.SUCCESS)
        if isinstance(answer, tuple):
            assert answer[0] == STOP
            return int(answer[1])
        self.gate.on_check_authn_complete(client, code, False, False)
        return code

    def passes(self, seconds: float) -> None:
        self.now_us += int(seconds * SECOND)
        self.gate.expire()


BAD, WAIT, OK = rc.BAD_USERNAME_OR_PASSWORD, rc.CONNECTION_RATE_EXCEEDED, rc.SUCCESS


def test_failed_logins_of_a_name_wait_longer_and_longer_and_others_of_the_address_do_not() -> None:
    world = World()
    assert [world.tries("192.0.2.1", "joe") for _ in range(5)] == [BAD] * 3 + [WAIT] * 2
    assert world.tries("192.0.2.1", "ann", OK) == OK
    assert world.tries("192.0.2.2", "joe", OK) == OK
    for wait in (1, 2, 4, 8, 16, 32, 60, 60):
        world.passes(wait - 0.01)
        assert world.tries("192.0.2.1", "joe", OK) == WAIT
        world.passes(0.01)
        assert world.tries("192.0.2.1", "joe") == BAD
    world.passes(60)
    assert world.tries("192.0.2.1", "joe", OK) == OK
    assert [world.tries("192.0.2.1", "joe") for _ in range(4)] == [BAD] * 3 + [WAIT]  # it began anew


def test_a_right_password_of_a_banned_user_is_no_failed_login() -> None:
    world = World()
    assert {world.tries("192.0.2.1", "joe", rc.BANNED) for _ in range(20)} == {rc.BANNED}


def test_a_crowd_that_waited_together_has_one_try_together() -> None:
    world = World()
    gate = world.gate
    for _ in range(3):
        world.tries("192.0.2.1", "joe")
    world.passes(1)
    client = ClientInfo("c", "joe", "192.0.2.1:1")
    answers = [gate.on_client_connect(client, None, rc.SUCCESS) for _ in range(50)]
    assert [isinstance(answer, tuple) for answer in answers] == [False] + [True] * 49
    gate.on_check_authn_complete(client, rc.SERVER_BUSY, False, False)  # nobody has looked at the password
    world.passes(1)
    assert world.tries("192.0.2.1", "joe") == BAD
    world.passes(1.9)
    assert world.tries("192.0.2.1", "joe", OK) == WAIT
    world.passes(0.1)
    assert [world.tries("192.0.2.1", "joe", OK) for _ in range(3)] == [OK] * 3


def test_devices_that_come_after_an_attack_do_not_wait_for_each_other() -> None:
    world = World()
    for number in range(7):
        world.tries("192.0.2.1", f"guess{number}")
    world.passes(1)
    assert [world.tries("192.0.2.1", f"device{number}", OK) for number in range(20)] == [OK] * 20


def test_many_names_of_one_address_wait_together_but_not_those_that_logged_in_before() -> None:
    world = World()
    assert world.tries("192.0.2.1", "device", OK) == OK
    assert [world.tries("192.0.2.1", f"guess{n}") for n in range(8)] == [BAD] * 6 + [WAIT] * 2
    assert world.tries("192.0.2.1", "new", OK) == WAIT
    assert world.tries("192.0.2.1", "device", OK) == OK
    assert world.tries("192.0.2.7", "new", OK) == OK
    world.passes(1)
    assert world.tries("192.0.2.1", "new", OK) == OK
    assert world.tries("192.0.2.1", "guess") == BAD  # who has one password guesses no faster those of others
    assert world.tries("192.0.2.1", "guess") == WAIT


def test_guesses_under_the_name_of_a_known_device_from_its_address_do_not_lock_it_out() -> None:
    world = World()
    for clientid in ("cam-1", "cam-2"):
        assert world.tries("192.0.2.1", "joe", OK, clientid) == OK
    answers = [world.tries("192.0.2.1", "joe", clientid=f"guess-{n}") for n in range(20)]
    assert answers == [BAD] * 3 + [WAIT] * 17
    for _ in range(600):
        world.passes(0.1)
        world.tries("192.0.2.1", "joe", clientid="guess")  # takes every try of the strangers there
        assert world.tries("192.0.2.1", "joe", OK, "cam-1") == OK
    assert world.tries("192.0.2.1", "joe", OK, "new") == WAIT
    assert [world.tries("192.0.2.1", "joe", clientid="cam-1") for _ in range(4)] == [BAD] * 3 + [WAIT]
    assert world.tries("192.0.2.1", "joe", OK, "cam-2") == OK  # a device waits for its own failures alone
    assert world.tries("192.0.2.1", "ann", OK, "cam-1") == WAIT  # a client id is known with its user name
    assert world.tries("192.0.2.9", "joe", BAD, "cam-2") == BAD


def test_a_device_whose_user_name_comes_with_its_login_is_known_by_its_id() -> None:
    world = World()
    client = ClientInfo("cam", None, "192.0.2.1:1")
    world.gate.on_client_connect(client, None, rc.SUCCESS)
    client.username = "joe"  # as SCRAM does
    world.gate.on_check_authn_complete(client, OK, False, False)
    for number in range(7):
        world.tries("192.0.2.1", f"guess{number}")
    assert world.tries("192.0.2.1", None, OK, "new") == WAIT
    assert world.tries("192.0.2.1", None, OK, "cam") == OK


def test_logins_of_a_known_name_give_others_no_further_tries() -> None:
    world = World()
    world.tries("192.0.2.1", "joe", OK)
    for number in range(7):
        world.tries("192.0.2.1", f"guess{number}")
    world.passes(1)
    client = ClientInfo("c", "guess", "192.0.2.1:1")
    assert not isinstance(world.gate.on_client_connect(client, None, rc.SUCCESS), tuple)  # the one try is under way
    assert world.tries("192.0.2.1", "joe", OK) == OK
    assert world.tries("192.0.2.1", "guess") == WAIT


def test_a_name_whose_clients_have_another_id_each_time_pushes_out_its_own_devices() -> None:
    known = KnownLogins()
    known.add(1, "joe", "cam")
    for number in range(2 * DEVICES_OF_NAME_MAX):
        known.add(1, "ann", f"ann-{number}")
        known.add(1, "ann", "stays")
    assert known.device_of(1, "joe", "cam")
    assert known.device_of(1, "ann", "stays")
    assert known.device_of(1, "ann", f"ann-{2 * DEVICES_OF_NAME_MAX - 1}")
    assert not known.device_of(1, "ann", "ann-0")


def test_who_logged_in_is_known_from_the_file_as_far_as_it_can_be_read(tmp_path: Path) -> None:
    file = tmp_path / "known"
    before = KnownLogins(file)
    for number in range(5):
        before.add(number, "joe", f"cam-{number}")
        before.save()
    assert b"joe" not in file.read_bytes()
    with file.open("ab") as cut:
        cut.write(b"cut off")
    again = KnownLogins(file)
    assert all(again.device_of(number, "joe", f"cam-{number}") for number in range(5))
    again.add(7, "ann", "new")
    again.save()
    assert KnownLogins(file).device_of(7, "ann", "new")
    for number in range(DEVICES_MAX + 5):
        again.add(number, "x", "")
    for _ in range(3):
        again.add(1, "more", f"{_}")
        again.save()
    assert file.stat().st_size <= 16 * 2 * DEVICES_MAX + 16
    assert len(KnownLogins(file)) <= DEVICES_MAX


def test_a_fleet_behind_one_address_is_not_locked_out_by_one_device_with_a_wrong_password() -> None:
    world = World(AddressLimits())
    told = [world.tries("192.0.2.1", "broken") for _ in range(10)]
    for second in range(600):
        world.passes(1)
        told.append(world.tries("192.0.2.1", "broken"))
        assert world.tries("192.0.2.1", f"device{second}", OK) == OK
    assert told.count(BAD) < 10 + 6 + 10


def test_failures_are_forgotten_with_time_and_after_a_success() -> None:
    world = World()
    for _ in range(5):
        assert [world.tries("192.0.2.1", "joe") for _ in range(2)] == [BAD] * 2
        world.passes(61)
    assert [world.tries("192.0.2.1", "joe") for _ in range(2)] == [BAD] * 2
    assert world.tries("192.0.2.1", "joe", OK) == OK
    assert [world.tries("192.0.2.1", "joe") for _ in range(2)] == [BAD] * 2


def test_a_client_without_a_user_name_counts_by_its_id() -> None:
    world = World()
    assert [world.tries("192.0.2.1", None, rc.NOT_AUTHORIZED, "a") for _ in range(4)] == [rc.NOT_AUTHORIZED] * 3 + [
        WAIT
    ]
    assert world.tries("192.0.2.1", None, OK, "b") == OK


def test_an_address_of_ipv6_is_its_network_of_64_bits_and_a_mapped_one_is_ipv4() -> None:
    world = World()
    assert [world.tries(f"2001:db8::{n:x}", "joe") for n in range(1, 5)] == [BAD] * 3 + [WAIT]
    assert world.tries("2001:db8:0:1::1", "joe", OK) == OK
    assert [world.tries(host, "joe") for host in ("192.0.2.1", "::ffff:192.0.2.1") * 2] == [BAD] * 3 + [WAIT]


@pytest.mark.parametrize("host", ["127.0.0.1", "::1", "10.3.4.5", "/run/heliograph.sock", ""])
def test_exempt_addresses_and_unix_sockets_have_no_limits(host: str) -> None:
    networks = (*AddressLimits().exempt, ip_network("10.0.0.0/8"))
    world = World(AddressLimits(networks, Rate(1, 60.0), LIMITS.login_backoff))
    assert [world.tries(host, "joe") for _ in range(20)] == [BAD] * 20


def test_what_is_not_the_clients_fault_is_no_failed_login() -> None:
    world = World()
    for code in (rc.SERVER_UNAVAILABLE, rc.SERVER_BUSY, rc.QUOTA_EXCEEDED):
        assert [world.tries("192.0.2.1", "joe", code) for _ in range(10)] == [code] * 10


def test_an_address_connects_no_faster_than_its_rate() -> None:
    world = World(AddressLimits(max_conn_rate=Rate(5, 1.0)))
    assert [world.tries("192.0.2.1", f"n{n}", OK) for n in range(7)] == [OK] * 5 + [WAIT] * 2
    assert world.tries("192.0.2.2", "joe", OK) == OK
    world.passes(0.4)
    assert [world.tries("192.0.2.1", f"n{n}", OK) for n in range(4)] == [OK] * 2 + [WAIT] * 2
    assert world.gate.statistics()["address_limits.refused_connects"] == 4


def test_switched_off_it_counts_nothing() -> None:
    world = World(AddressLimits(login_backoff=LoginBackoff(enable=False, max_failures=1)))
    assert [world.tries("192.0.2.1", "joe") for _ in range(5)] == [BAD] * 5


def test_addresses_without_end_take_bounded_memory() -> None:
    logins, rates = FailedLogins(LoginBackoff()), ConnectRates(Rate(5, 1.0))
    for place in range(120_000):
        logins.failed_login(place, "", "joe", place)
        logins.succeeded(place, "ann", place)
        logins.known.add(place, "ann", "c")
        rates.take(place, place)
    statistics = logins.statistics()
    assert statistics["address_limits.counted"] == 100_000
    assert statistics["address_limits.known"] == 100_000
    assert statistics["address_limits.forgotten"] == 140_000
    assert len(rates) == 100_000
    logins.expire(200_000_000)
    rates.expire(200_000_000)
    assert (logins.statistics()["address_limits.counted"], len(rates)) == (0, 0)


def test_lines_of_the_log_and_what_waits_are_bounded(caplog: pytest.LogCaptureFixture) -> None:
    world = World(AddressLimits(login_backoff=LoginBackoff(max_failures=1)))
    for number in range(30_000):
        world.tries(f"{10 + (number >> 16)}.{number >> 8 & 255}.{number & 255}.1", "x" * 1000)
    assert world.gate.statistics()["address_limits.waiting"] <= 20_000
    assert len(caplog.records) <= 11
    assert all(len(record.getMessage()) < 700 for record in caplog.records)


# --- as clients see it


def refused(node: Node, version: int = p.V5, username: str = "joe") -> int:
    peer = node.peer(version)
    peer.connect("c", username=username)
    code = peer.take(p.Connack).code
    assert peer.closed()
    return int(code)


@pytest.mark.parametrize(("version", "code"), [(p.V5, WAIT), (p.V3_1_1, rc.SERVER_UNAVAILABLE)])
def test_who_waits_is_refused_before_any_authenticator_is_asked(version: int, code: int) -> None:
    node = Node("address_limits.login_backoff { max_failures = 2, max_failures_of_address = 1000 }")
    asked = 0

    def deny(*_: object) -> object:
        nonlocal asked
        asked += 1
        return STOP, AuthStep(BAD)

    node.broker.hooks.client_authenticate.add(deny, 0)
    for _ in range(2):
        assert refused(node, version) == BAD
    for _ in range(200):
        assert refused(node, version) == code
    assert asked == 2
    node.advance(0.4)
    assert [alarm.name for alarm in node.alarms.active()] == ["logins_refused"]
    node.advance(1)
    assert refused(node, version) == BAD
    assert node.statistics()["address_limits.refused_logins"] == 200
    node.advance(60)
    node.advance(60)
    assert node.alarms.active() == []


async def test_limits_change_while_a_node_runs_and_a_storm_of_failed_logins_leaves_others_alone(tmp_path: Path) -> None:
    always = """
    listeners.tcp.default.bind = "127.0.0.1:0"
    durable_storage { messages.topics = [], flight.enable = false }
    """
    async with RunningNode(tmp_path, always) as node:
        asked = 0

        def decide(client: ClientInfo, *_: object) -> object:
            nonlocal asked
            asked += client.username == "joe"
            return STOP, AuthStep(BAD if client.username == "joe" else rc.SUCCESS)

        node.node.broker.hooks.client_authenticate.add(decide, 0)

        async def code(name: str) -> int:
            client = await node.open()
            client.send_connect(name, username=name)
            answer = (await client.take(p.Connack)).code
            client.close()
            return answer

        async def storm(count: int) -> list[int]:
            return [await code("joe") for _ in range(count)]

        assert await storm(12) == [BAD] * 12  # the loopback is exempt
        backoff = "address_limits { exempt = [], login_backoff { max_failures = 5, min_wait = 1h, max_wait = 1h } }"
        assert await node.change(backoff)
        healthy = await node.connect("healthy", username="healthy")
        await healthy.subscribe("t")
        asked = 0
        storms = [asyncio.create_task(storm(50)) for _ in range(4)]
        for number in range(20):
            assert await healthy.publish("t", b"%d" % number, 1) == 0
            assert await code(f"device{number}") == rc.SUCCESS
        answers = [answer for one in await asyncio.gather(*storms) for answer in one]
        assert set(answers) == {BAD, WAIT}
        assert asked == answers.count(BAD) <= 5 + 3  # those that were under way together
        assert await healthy.payloads() == [b"%d" % number for number in range(20)]
        assert await node.change(backoff.replace("exempt = []", 'exempt = [], max_conn_rate = "1/1h"'))
        assert [await code("device1"), await code("device1")] == [rc.SUCCESS, WAIT]
        assert await node.change("address_limits { exempt = [], login_backoff.enable = false }")
        assert await storm(3) == [BAD] * 3


async def test_a_known_device_connects_while_others_guess_at_its_address_also_after_a_restart(tmp_path: Path) -> None:
    users = tmp_path / "users.csv"
    users.write_text("user_id,password,is_superuser\njoe,right,false\nann,right,false\n")
    settings = f"""
    listeners.tcp.default.bind = "127.0.0.1:0"
    durable_storage {{ messages.topics = [], flight.enable = false }}
    address_limits.exempt = []
    address_limits.login_backoff {{ max_failures = 3, max_failures_of_address = 6, min_wait = 1h, max_wait = 1h }}
    authentication = [{{
      mechanism = password_based, backend = built_in_database, bootstrap_file = "{users}", bootstrap_type = plain
    }}]
    """

    async def code(node: RunningNode, clientid: str, name: str, password: bytes) -> int:
        client = await node.open()
        client.send_connect(clientid, username=name, password=password)
        answer = (await client.take(p.Connack)).code
        client.close()
        return answer

    async def guesses(node: RunningNode) -> list[int]:
        found = [await code(node, f"guess-{number}", "joe", b"wrong") for number in range(5)]
        return found + [await code(node, f"guess-{number}", "ann", b"wrong") for number in range(5)]

    async with RunningNode(tmp_path, settings) as node:
        assert await code(node, "cam", "joe", b"right") == OK
        assert await guesses(node) == [BAD] * 3 + [WAIT] * 2 + [BAD] * 3 + [WAIT] * 2
        assert await code(node, "cam", "joe", b"right") == OK
    async with RunningNode(tmp_path, settings) as node:
        assert WAIT in await guesses(node)
        assert await code(node, "cam", "joe", b"right") == OK
        assert await code(node, "other", "joe", b"right") == WAIT
        assert await code(node, "cam", "ann", b"right") == WAIT
