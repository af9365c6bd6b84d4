"""Attacks on the HTTP API at once: administrators and clients are answered meanwhile."""

from collections.abc import Iterator
from urllib.parse import urlsplit

import httpx
import pytest

from attack.api_trial import settings_with_roles
from attack.callers import VIEWER
from attack.trial import child, expect, say
from support.managed_clients import Peers
from support.management import ManagedNode

ATTACKS = ("scrapes", "half_bodies", "forged_half_bodies", "half_bodies_of_a_viewer", "subscriptions_given_up")
VIEWER_KEY = VIEWER.partition(":")[::2]


@pytest.fixture(scope="module")
def managed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ManagedNode]:
    directory = tmp_path_factory.mktemp("attacked")
    settings = settings_with_roles(directory) + "durable_storage.flight.enable = false\n"
    with ManagedNode(directory, settings) as node:
        yield node


def test_management_is_answered_while_it_is_attacked(managed: ManagedNode) -> None:
    assert managed.api.get("/nodes").status_code == 200  # its key is known here: it does not wait for others' tries
    assert httpx.get(f"{managed.url}/api/v5/nodes", auth=VIEWER_KEY, timeout=60).status_code == 200
    api_port = str(urlsplit(managed.url).port)
    attacker = child("attack.attacker", ",".join(ATTACKS), str(managed.port), "short", api_port)
    with Peers(managed) as peers:
        try:
            expect(attacker, "ready")
            say(attacker, "go")
            for path in ("/nodes", "/alarms", "/banned", "/clients", "/nodes"):
                answer = managed.api.get(path)
                assert answer.status_code == 200, answer.text
            peer = peers.connect("beside")
            peer.subscribe("beside", 1)
            peer.publish("beside", b"x", 1)
            assert peer.messages(1) == [("beside", b"x")]
        finally:
            attacker.kill()
            attacker.communicate()
