"""Connectors and actions that are deleted while they are asked about."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from heliograph.config_changes.edits import Edit
from heliograph.node.actions import ActionsPart
from heliograph.rpc.methods import RpcError
from support.asked_node import AskedNode
from support.live_node import ALICE


@pytest.fixture
async def node(tmp_path: Path) -> AsyncIterator[AskedNode]:
    """A node with the connector `http:web`."""
    live = await AskedNode(tmp_path).start()
    await live.manager.change(Edit('connectors.http.web.url = "http://127.0.0.1:9"'), ALICE)
    yield live
    await live.stop()


async def test_a_connector_that_is_deleted_while_it_connects_is_not_there(
    node: AskedNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def deleted(connector_id: str) -> None:
        await node.manager.change(Edit("connectors = null"), ALICE)

    monkeypatch.setattr(node.node.parts.get(ActionsPart), "try_again", deleted)
    with pytest.raises(RpcError, match="there is no connector http:web"):
        await node.ask("connectors.start", {"name": "http:web"})


async def test_an_action_that_is_deleted_while_it_is_started_is_not_there(
    node: AskedNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    await node.manager.change(Edit('actions.http.send { connector = web, parameters.path = "/" }'), ALICE)

    async def deleted(connector_id: str) -> None:
        await node.manager.change(Edit("actions = null"), ALICE)

    monkeypatch.setattr(node.node.parts.get(ActionsPart), "try_again", deleted)
    with pytest.raises(RpcError, match="there is no action http:send"):
        await node.ask("actions.start", {"name": "http:send"})
