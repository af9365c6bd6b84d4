"""What clients were refused is remembered by client id, and strangers cannot fill memory with it."""

from heliograph.broker.client import ClientInfo
from heliograph.channel.refusals import RefusedClients


def client(clientid: str, host: str = "10.0.0.7") -> ClientInfo:
    """Who is refused."""
    found = ClientInfo(clientid, "bob", "")
    found.peername = f"{host}:1883"
    return found


def test_attempts_that_are_the_same_are_counted() -> None:
    refused = RefusedClients(lambda clientid: False)
    for now_us in (1, 2, 3):
        refused.on_connect(client("a"), "banned", now_us)
    refused.on_subscribe(client("a"), "private/#", "not_authorized", 4)
    newest, first = refused.of("a")
    assert (newest.what, newest.reason, newest.about, newest.count) == ("subscribe", "not_authorized", "private/#", 1)
    assert (first.what, first.about, first.peerhost, first.count) == ("connect", "bob", "10.0.0.7", 3)
    assert (first.first_us, first.last_us) == (1, 3)
    assert refused.of("b") == []


def test_of_a_client_the_newest_attempts_are_kept() -> None:
    refused = RefusedClients(lambda clientid: True)
    for number in range(100):
        refused.on_subscribe(client("a"), f"private/{number}", "not_authorized", number)
    assert [one.about for one in refused.of("a")] == [f"private/{number}" for number in range(99, 91, -1)]


def test_strangers_do_not_drive_out_clients_with_sessions_or_strangers_of_other_addresses() -> None:
    refused = RefusedClients(lambda clientid: clientid == "mine")
    refused.on_subscribe(client("mine"), "private/#", "not_authorized", 1)
    refused.on_connect(client("lost", "10.0.0.8"), "not_authorized", 2)
    for number in range(5000):
        refused.on_connect(client(f"stranger-{number}"), "not_authorized", 3)
    assert len(refused) == 1 + 1 + 64
    assert [one.about for one in refused.of("mine")] == ["private/#"]
    assert len(refused.of("lost")) == 1
    assert len(refused.of("stranger-4999")) == 1


def test_all_of_it_is_bounded_in_clients_and_bytes() -> None:
    refused = RefusedClients(lambda clientid: False)
    for number in range(5000):
        refused.on_connect(client(f"{number}" * 60, f"10.0.{number // 250}.{number % 250}"), "banned", number)
    assert len(refused) <= 1024
    known = RefusedClients(lambda clientid: True)
    for number in range(5000):
        for at in range(8):
            known.on_subscribe(client(f"{number}"), f"{at}" * 1000, "not_authorized", number)
    assert known.size_bytes <= 4 << 20
    assert known.of("4999") != []
    known.on_connect(client("x" * 300), "banned", 1)
    assert known.of("x" * 300) == []
