"""The first code of a second factor, sent twice at the same time."""

import asyncio
import time
from pathlib import Path
from typing import TypeVar, cast

import msgspec
import pytest

from heliograph.control.proto_v1.people import ManagementUserRow, SecondFactor
from heliograph.management.asking.nodes import ASK_S, Node, NodeConnections
from heliograph.management.people.callers import Enrolments
from heliograph.management.people.totp import STEP_S, code_at, recovery_hash_of
from heliograph.management.web.errors import ApiError
from heliograph.rpc.asks import Question
from heliograph.rpc.methods import RpcError

T = TypeVar("T")


class KeepingNode(Node):
    """Keeps second factors a turn after it was asked to; refuses as many of them as a test says."""

    def __init__(self, data_dir: Path, refused: int = 0) -> None:
        super().__init__(NodeConnections("n", data_dir))
        self.kept: list[msgspec.Struct] = []
        self._refused = refused

    async def ask(self, question: Question[T], timeout_s: float | None = ASK_S) -> T:
        await asyncio.sleep(0)
        if self._refused:
            self._refused -= 1
            raise RpcError("state_not_written", "the disk is full")
        self.kept.append(question.args)
        return cast("T", ManagementUserRow("ann", "viewer", "", 0, False, True))


def begun() -> tuple[Enrolments, str]:
    """A second factor that waits, and its code."""
    enrolments = Enrolments()
    return enrolments, code_at(enrolments.begin("ann"), int(time.time()) // STEP_S)


async def test_of_two_confirmations_at_once_one_counts_with_the_recovery_codes_that_it_tells(tmp_path: Path) -> None:
    (enrolments, code), node = begun(), KeepingNode(tmp_path)
    ended = await asyncio.gather(*(enrolments.confirm("ann", code, node) for _ in range(2)), return_exceptions=True)
    (codes,) = [one for one in ended if isinstance(one, list)]
    assert [type(one) for one in ended if not isinstance(one, list)] == [ApiError]
    (kept,) = node.kept
    assert isinstance(kept, SecondFactor)
    assert kept.recovery == tuple(map(recovery_hash_of, codes))


async def test_one_that_is_not_kept_waits_on(tmp_path: Path) -> None:
    (enrolments, code), node = begun(), KeepingNode(tmp_path, refused=1)
    with pytest.raises(RpcError):
        await enrolments.confirm("ann", code, node)
    assert await enrolments.confirm("ann", code, node)
