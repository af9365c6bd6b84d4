"""Flapping detection, as clients see it."""

import logging
from dataclasses import replace

import pytest

from heliograph.access.bans.ban_list import BanList
from heliograph.access.bans.ban_table import Ban
from heliograph.access.bans.flapping import FlappingDetector
from heliograph.broker.authentication import AuthStep
from heliograph.broker.client import ClientInfo
from heliograph.broker.hooks import STOP
from heliograph.config.services import FlappingDetect
from heliograph.mqtt import packets as p
from heliograph.mqtt import reason_codes as rc
from support.options import CHANNEL
from support.services import Node

ENABLED = "flapping_detect { enable = true, max_count = 3, window_time = 1m, ban_time = 5m }"


def code_for(node: Node, clientid: str = "c") -> int:
    """The reason code with which a client's CONNECT is answered."""
    peer = node.peer()
    peer.connect(clientid)
    return peer.take(p.Connack).code


def come_and_go(node: Node, clientid: str = "c") -> None:
    node.connect(clientid).drop()


def come_for_the_last_time(node: Node, clientid: str = "c") -> None:
    """A client is let in, and kicked: its id is banned now."""
    peer = node.peer()
    peer.connect(clientid)
    node.run()
    assert peer.heard() == ["CONNACK 0x00", "DISCONNECT 0x98"]
    assert not node.sessions.knows(clientid)


def test_a_client_that_flaps_is_banned_for_a_while(caplog: pytest.LogCaptureFixture) -> None:
    node = Node(ENABLED)
    for _ in range(2):
        come_and_go(node)
    come_for_the_last_time(node)
    assert [code_for(node), code_for(node)] == [rc.BANNED, rc.BANNED]
    assert code_for(node, "other") == rc.SUCCESS
    assert caplog.text.count("client 'c' at 192.0.2.1 connected 3 times within 60 s and is banned for 300 s") == 1
    node.advance(299)
    assert code_for(node) == rc.BANNED
    node.advance(1)
    assert code_for(node) == rc.SUCCESS
    assert node.statistics()["flapping.detected"] == 1


def test_a_client_that_comes_and_goes_slowly_is_not() -> None:
    node = Node(ENABLED)
    for _ in range(6):
        come_and_go(node)
        node.advance(40)
    assert code_for(node) == rc.SUCCESS


def test_a_disconnect_by_the_client_counts_like_a_lost_connection() -> None:
    node = Node(ENABLED)
    for _ in range(2):
        node.connect().disconnect()
    come_for_the_last_time(node)
    assert code_for(node) == rc.BANNED


def test_clients_that_take_each_others_session_over_are_banned() -> None:
    node = Node(ENABLED)
    node.connect()
    node.connect()
    come_for_the_last_time(node)
    assert code_for(node) == rc.BANNED


def test_a_ban_of_the_detector_is_lifted_like_every_other_one() -> None:
    node = Node(ENABLED)
    for _ in range(2):
        come_and_go(node)
    come_for_the_last_time(node)
    assert node.bans.remove("clientid", "c")
    for _ in range(2):
        come_and_go(node)
    come_for_the_last_time(node)
    assert code_for(node) == rc.BANNED


def test_who_is_not_let_in_has_nobody_banned() -> None:
    node = Node(ENABLED)
    owner = node.connect()
    node.broker.hooks.client_authenticate.add(lambda *_: (STOP, AuthStep(rc.NOT_AUTHORIZED)), 0)
    assert [code_for(node) for _ in range(5)] == [rc.NOT_AUTHORIZED] * 5
    node.run()
    assert owner.heard() == []
    assert len(node.bans) == node.statistics()["flapping.count"] - 1 == 0  # its own connection counts


def test_what_a_ban_refuses_does_not_count() -> None:
    node = Node(ENABLED)
    node.bans.add(Ban("clientid", "c", until_s=node.now_s() + 10))
    for _ in range(5):
        assert code_for(node) == rc.BANNED
    node.advance(10)
    assert code_for(node) == rc.SUCCESS


def test_it_is_off_unless_it_is_asked_for() -> None:
    node = Node()
    for _ in range(30):
        come_and_go(node)
    assert code_for(node) == rc.SUCCESS


def test_a_zone_may_have_its_own() -> None:
    settings = "zones.outside.flapping_detect { enable = true, max_count = 2 }"
    outside = Node(settings, replace(CHANNEL, zone="outside"))
    inside = Node(settings)
    for node in (outside, inside):
        come_and_go(node)
    come_for_the_last_time(outside)
    come_and_go(inside)
    assert code_for(outside) == rc.BANNED
    assert code_for(inside) == rc.SUCCESS


def test_what_is_counted_is_forgotten_in_time() -> None:
    node = Node(ENABLED)
    for number in range(50):
        come_and_go(node, f"c{number}")
    assert node.statistics()["flapping.count"] == 50
    node.advance(61)
    assert node.statistics()["flapping.count"] == 0


def test_the_table_is_bounded() -> None:
    bans = BanList(lambda: 0)
    settings = {"default": FlappingDetect(enable=True, max_count=2)}
    detector = FlappingDetector(settings, bans, lambda: 0, lambda: 0, logging.getLogger(), lambda _: None, 10)
    for number in range(100):
        detector.on_client_connected(ClientInfo(f"c{number}", None, "192.0.2.1:1"))
    assert detector.statistics() == {"flapping.count": 10, "flapping.detected": 0, "flapping.forgotten": 90}
    detector.on_client_connected(ClientInfo("c99", None, "192.0.2.1:1"))
    assert bans.is_banned("c99")
