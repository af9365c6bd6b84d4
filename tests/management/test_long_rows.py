"""Lists whose rows clients make long: an answer is bounded in bytes too, and nothing of the list is lost."""

import asyncio
from collections.abc import Iterator
from typing import Any, Final

import pytest

from support.managed_clients import Peers, connected
from support.management import Served

COUNT: Final = 300
BYTES_MAX: Final = 12 << 20
QUEUE_BYTES_MAX: Final = 6 << 20
LONG: Final = "x" * 60_000


@pytest.fixture(scope="module")
def recorded(managed: Served) -> Iterator[Served]:
    """The same node while it records what becomes of messages."""
    for is_on in ("true", "false"):
        change = {"values": {"diagnose.messages.enable": is_on}}
        assert managed.api.post("/heliograph/configuration/change", json=change).status_code == 200
        if is_on == "true":
            yield managed


def publish(managed: Served, above: str, count: int, *, retain: bool = False) -> None:
    async def all_of_them() -> None:
        async with connected(managed, "long") as client:
            for number in range(count):
                assert await client.publish(f"{above}/{number}/{LONG}", b"x", 1, retain=retain) in (0, 16)

    asyncio.run(all_of_them())


def test_ways_of_messages_go_on_with_a_cursor(recorded: Served) -> None:
    publish(recorded, "way", COUNT)
    query: dict[str, Any] = {"topic": "way/#", "limit": 1000}
    sizes: list[int] = []
    seen: list[str] = []
    while True:
        answer = recorded.api.get("/heliograph/message_ways", params=query)
        sizes.append(len(answer.content))
        page = answer.json()
        assert page["meta"]["count"] == len(page["data"])
        seen += [row["id"] for row in page["data"]]
        if "cursor" not in page["meta"]:
            break
        query["cursor"] = page["meta"]["cursor"]
    assert len(seen) == len(set(seen)) == COUNT
    assert max(sizes) < BYTES_MAX < sum(sizes)


def test_a_page_of_retained_messages_that_is_too_long_says_what_fits(managed: Served) -> None:
    publish(managed, "retained", COUNT, retain=True)
    query: dict[str, Any] = {"topic": "retained/#", "limit": 10_000}
    refused = managed.api.get("/mqtt/retainer/messages", params=query)
    assert (refused.status_code, refused.json()["code"]) == (400, "BAD_REQUEST")
    assert "ask for fewer" in refused.json()["message"]
    seen: set[str] = set()
    for page in (1, 2, 3):
        answer = managed.api.get("/mqtt/retainer/messages", params={**query, "limit": 100, "page": page}).json()
        seen |= {row["topic"] for row in answer["data"]}
        assert answer["meta"]["hasnext"] == (page < 3)
    assert len(seen) == COUNT
    assert managed.api.delete("/mqtt/retainer/message/retained%2F%23").status_code == 204


def test_messages_that_wait_go_on_with_their_position(managed: Served) -> None:
    with Peers(managed) as peers:
        slow = peers.connect("slow-reader", receive_maximum=1, acknowledges=False)
        slow.subscribe("waits/#", 1)
        publish(managed, "waits", COUNT)
        query: dict[str, Any] = {"limit": 1000}
        sizes: list[int] = []
        seen: list[str] = []
        while query.get("position") != "end_of_data":
            answer = managed.api.get("/clients/slow-reader/mqueue_messages", params=query)
            sizes.append(len(answer.content))
            seen += [row["topic"].split("/")[1] for row in answer.json()["data"]]
            query["position"] = answer.json()["meta"]["position"]
    assert seen == [str(number) for number in range(int(seen[0]), COUNT)], "the queue has let the oldest go"
    assert max(sizes) < QUEUE_BYTES_MAX < sum(sizes)
