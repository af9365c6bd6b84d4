"""Changes of one user that come while the hash of its new password is made."""

import asyncio
import threading
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from heliograph.access.passwords import PasswordPool
from heliograph.config.passwords import PasswordThreads
from heliograph.config_changes.edits import Edit
from heliograph.node.access_records import UsersPart
from heliograph.rpc.methods import RpcError
from support.asked_node import AskedNode
from support.live_node import ALICE
from support.waiting import until

ANN = {"user_id": "ann"}


@pytest.fixture
async def node(tmp_path: Path) -> AsyncIterator[AskedNode]:
    """A node with the user `ann`, whose password takes a slow hash."""
    live = await AskedNode(tmp_path).start()
    await live.manager.change(Edit("authentication = [{ mechanism = scram, backend = built_in_database }]"), ALICE)
    await live.ask("users.add", ANN | {"password": b"one"})
    yield live
    await live.stop()


async def changed_while(node: AskedNode, method: str, args: dict[str, object]) -> object:
    """What a new password comes to, for which something else is done with the user before its hash is there."""
    pool: PasswordPool = node.node.parts.get(UsersPart).passwords
    free = threading.Event()
    pool.use(PasswordThreads(threads=1, max_waiting=9))
    held = pool.run(free.wait)
    try:
        change = asyncio.ensure_future(node.ask("users.set", ANN | {"password": b"two"}))
        await until(lambda: pool.statistics()["passwords.waiting"] == 2)
        await node.ask(method, ANN | args)
    finally:
        free.set()
    assert await held
    return await change


async def test_a_user_that_is_deleted_meanwhile_does_not_come_back(node: AskedNode) -> None:
    with pytest.raises(RpcError, match="there is no user 'ann'"):
        await changed_while(node, "users.delete", {})
    assert await node.ask("users.list") == []


async def test_rights_that_change_meanwhile_stay(node: AskedNode) -> None:
    await changed_while(node, "users.set", {"is_superuser": True})
    (ann,) = await node.ask("users.list")
    assert ann.is_superuser
