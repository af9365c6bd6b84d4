"""Requests that rest on the settings of a node, which does not say them now."""

from pathlib import Path
from typing import TypeVar

import msgspec
import pytest

from heliograph.control.proto_v1.actions import ConnectorRow
from heliograph.management.api.integration import shown
from heliograph.management.api.secret_places import check_secrets_stay
from heliograph.management.asking.nodes import Node, NodeConnections, Nodes
from heliograph.management.asking.settings_trees import NO_SETTING
from heliograph.management.web.asked_nodes import AskedNodes
from heliograph.management.web.callers import Caller
from heliograph.rpc import codes
from heliograph.rpc.methods import RpcError

T = TypeVar("T")

OPERATOR = Caller("olga", "user", "operator")
PLACE = ("connectors", "http", "web")


class SilentNode(Node):
    """One that refuses all that it is asked."""

    def __init__(self, directory: Path, code: str) -> None:
        super().__init__(NodeConnections("n", directory))
        self._code = code

    async def rows(self, *asked: object) -> list[T]:
        raise RpcError(self._code, "it does not say")


class SilentNodes(AskedNodes):
    """That node."""

    def __init__(self, node: SilentNode) -> None:
        super().__init__(Nodes("n", node.data_dir), "", "", hides_sent=False)
        self._node = node

    @property
    def own(self) -> Node:
        return self._node


@pytest.fixture
def row() -> ConnectorRow:
    return msgspec.convert(
        {"type": "http", "name": "web", "is_enabled": True, "status": "connected", "reason": "", "actions": []},
        ConnectorRow,
    )


async def test_an_overloaded_node_lets_no_secret_go_elsewhere(tmp_path: Path, row: ConnectorRow) -> None:
    node = SilentNode(tmp_path, codes.OVERLOADED)
    with pytest.raises(RpcError, match="it does not say"):
        await check_secrets_stay(OPERATOR, node, PLACE, {"url": "http://elsewhere"})
    with pytest.raises(RpcError, match="it does not say"):
        await shown(SilentNodes(node), "connectors", [row], lambda one: {})


async def test_where_there_are_no_settings_there_is_no_secret(tmp_path: Path, row: ConnectorRow) -> None:
    node = SilentNode(tmp_path, NO_SETTING)
    await check_secrets_stay(OPERATOR, node, PLACE, {"url": "http://elsewhere"})
    (found,) = await shown(SilentNodes(node), "connectors", [row], lambda one: {})
    assert (found["name"], found["status"]) == ("web", "connected")
