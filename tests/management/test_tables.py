"""What an import gives to a node, table by table."""

import time
from typing import cast

import pytest

from heliograph.control.proto_v1 import bans
from heliograph.management.asking.nodes import Node
from heliograph.management.backups.tables import TABLES
from heliograph.rpc.asks import Question
from heliograph.rpc.methods import RpcError


class Refusing:
    """A node that takes no ban."""

    def __init__(self) -> None:
        self.asked: list[bans.NewBan] = []

    async def ask(self, question: Question[bans.BanMade]) -> None:
        """Refuse it."""
        assert isinstance(question.args, bans.NewBan)
        self.asked.append(question.args)
        raise RpcError("ban_invalid", "it is none")


async def test_a_ban_that_has_ended_since_is_left_out_and_another_that_is_refused_is_not() -> None:
    node, take = Refusing(), TABLES["banned"].take
    ended = bans.BanRow("clientid", "a", "why", "ops", 7, int(time.time()))
    assert await take(cast(Node, node), [ended]) == 0
    assert [(one.who, one.replaces) for one in node.asked] == [("a", True)]
    holds = bans.BanRow("clientid", "b", "why", "ops", 7, None)
    with pytest.raises(RpcError):
        await take(cast(Node, node), [ended, holds])
