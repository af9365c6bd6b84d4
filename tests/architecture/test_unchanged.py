"""A test that leaves something on a node that others use is named, and so is what it left (`support.unchanged`)."""

from collections.abc import Callable
from typing import Any

import httpx
import pytest

from support.unchanged import unchanged


class Node:
    """What a node answers, as far as the check asks."""

    def __init__(self) -> None:
        self.banned: list[dict[str, Any]] = [{"who": "old"}]
        self.configuration = "a = 1\nb = 2\n"

    def answer(self, request: httpx.Request) -> httpx.Response:
        place = request.url.path.removeprefix("/api/v5/")
        if place == "configs":
            return httpx.Response(200, text=self.configuration)
        if place in ("users", "api_key"):
            return httpx.Response(401)
        return httpx.Response(200, json={"data": self.banned if place == "banned" else []})


def ban(node: Node) -> None:
    node.banned.append({"who": "new"})


def lift(node: Node) -> None:
    node.banned.clear()


def configure(node: Node) -> None:
    node.configuration = "a = 3\nb = 2\n"


def change(node: Node, what: Callable[[Node], None]) -> None:
    api = httpx.Client(transport=httpx.MockTransport(node.answer), base_url="http://node/api/v5/")
    with unchanged(api, "test_it"):
        what(node)


@pytest.mark.parametrize(
    ("what", "left"),
    [(ban, "banned: +new"), (lift, "banned: -old"), (configure, "configuration: +a = 3, -a = 1")],
)
def test_what_a_test_leaves_is_named(what: Callable[[Node], None], left: str) -> None:
    with pytest.raises(AssertionError, match="test_it leaves the node") as caught:
        change(Node(), what)
    assert str(caught.value).partition("changed: ")[2] == left


def test_what_a_test_takes_away_again_is_not_left() -> None:
    node = Node()

    def ban_and_lift(it: Node) -> None:
        ban(it)
        it.banned.pop()

    change(node, ban_and_lift)
