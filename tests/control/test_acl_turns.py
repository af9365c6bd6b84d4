"""Changes of many built-in rules: others have their turns meanwhile, and what was checked holds until it is written."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from heliograph.access.authorization.part import AuthorizationPart
from heliograph.access.built_in_rules.store import DATABASE, BuiltInRules
from heliograph.config.authorization import BuiltInDatabaseSourceConfig
from heliograph.control.acl import AclAnswers
from heliograph.control.proto_v1 import acl as proto
from heliograph.rpc.methods import Call, RpcError
from heliograph.storage.state.local import LocalState

RULE = {"permission": "allow", "action": "publish", "topic": "t/#"}
CALL = Call("tests", "tests")
RULES_MAX = 5_000


@pytest.fixture
async def answers(tmp_path: Path) -> AsyncIterator[AclAnswers]:
    store = BuiltInRules(LocalState(tmp_path, DATABASE))
    settings = SimpleNamespace(sources=[BuiltInDatabaseSourceConfig(max_rules=RULES_MAX)])
    yield AclAnswers(store, cast(AuthorizationPart, SimpleNamespace(settings=settings, sources=[])))
    await store.close()


async def turns_during(change: "asyncio.Task[proto.AclChanged]") -> int:
    """How many turns others have until a change has ended."""
    count = 0
    while not change.done():
        await asyncio.sleep(0)
        count += 1
    return count


def names(answers: AclAnswers) -> list[str]:
    """Whose rules there are."""
    return [row.name for part in answers.list(proto.AclWanted(), CALL) for row in part]


@pytest.mark.parametrize(
    "owners",
    [
        [proto.AclRules("username", f"u{number}", [RULE]) for number in range(5_000)],
        [proto.AclRules("all", "", [RULE] * RULES_MAX)],
    ],
    ids=["many owners", "many rules of one"],
)
async def test_others_have_their_turns_while_many_rules_are_checked(
    answers: AclAnswers, owners: list[proto.AclRules]
) -> None:
    checked = [*owners, proto.AclRules("username", "last", [{"permission": "no"}])]
    change = asyncio.create_task(answers.change(proto.AclChange(checked), CALL))
    assert await turns_during(change) > 10
    with pytest.raises(RpcError, match="rule 1 of username 'last'"):
        await change
    assert names(answers) == []
    assert (await answers.change(proto.AclChange(owners), CALL)).rules == 5_000
    assert len(names(answers)) == len(owners)


async def test_too_many_rules_are_refused_before_each_is_looked_at(answers: AclAnswers) -> None:
    owners = [proto.AclRules("all", "", [{"permission": "no"}] * (RULES_MAX + 1))]
    with pytest.raises(RpcError, match=f"would have {RULES_MAX + 1} rules; at most {RULES_MAX} are valid"):
        await answers.change(proto.AclChange(owners), CALL)


async def test_changes_that_come_together_are_checked_one_after_the_other(answers: AclAnswers) -> None:
    owners = [proto.AclRules("username", f"u{number}", [RULE]) for number in range(1_000)]
    both = (answers.change(proto.AclChange(owners[at:], "new"), CALL) for at in (0, 999))
    first, second = await asyncio.gather(*both, return_exceptions=True)
    assert isinstance(first, proto.AclChanged)
    assert isinstance(second, RpcError)
    assert second.code == "already_exists"
    rear = (answers.change(proto.AclChange(owners[:1], "rear"), CALL) for _ in range(3))
    assert [one.rules for one in await asyncio.gather(*rear)] == [2, 3, 4]
    await answers.delete(proto.AclRemoval("username", "u0", 1), CALL)
    assert len(answers.show(proto.AclOwner("username", "u0"), CALL).rules) == 3
    await answers.clear(proto.AclClearing(), CALL)
    assert names(answers) == []
