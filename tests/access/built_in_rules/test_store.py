"""The rules of the built-in database on the disk."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from heliograph.access.built_in_rules import record
from heliograph.access.built_in_rules.store import DATABASE, BuiltInRules, OwnRules
from heliograph.node.state_records import validator
from heliograph.storage.errors import StorageClosedError, StorageDamagedError
from heliograph.storage.state.interface import StateBatch
from heliograph.storage.state.local import LocalState

ROW = {"permission": "allow", "action": "publish", "topic": "t"}


@pytest.fixture
async def state(tmp_path: Path) -> AsyncIterator[LocalState]:
    state = LocalState(tmp_path, DATABASE)
    yield state
    await state.close()


async def test_rules_are_found_by_whom_they_are_for(state: LocalState) -> None:
    rules, changes = BuiltInRules(state), list[int]()
    rules.on_change.append(lambda: changes.append(rules.version))
    rules.open()
    await rules.put([OwnRules("clientid", "é/+", [ROW]), OwnRules("username", "é/+", [ROW, ROW])])
    await rules.put([OwnRules("all", "", [ROW])])
    assert changes == [1, 2]
    assert [len(rules.get(*whose)) for whose in (("clientid", "é/+"), ("username", "é/+"), ("all",))] == [1, 2, 1]
    assert [(own.kind, own.name) for own in rules.walk()] == [("clientid", "é/+"), ("username", "é/+"), ("all", "")]
    await rules.put([OwnRules("username", "é/+", [])])
    assert rules.get("username", "é/+") == []
    await rules.clear(["clientid"])
    assert [own.kind for own in rules.walk()] == ["all"]
    await rules.put([])
    assert changes == [1, 2, 3, 4]


async def test_a_record_that_is_damaged_is_no_empty_list(state: LocalState) -> None:
    rules = BuiltInRules(state)
    rules.open()
    await rules.put([OwnRules("clientid", "c", [ROW])])
    batch = StateBatch()
    batch.put(record.key_of("clientid", "c"), b'[{"permission": ')
    state.submit(batch)
    with pytest.raises(StorageDamagedError, match="the rules of clientid 'c' cannot be read"):
        rules.get("clientid", "c")
    assert "the rules of clientid 'c' cannot be read" in rules.fault
    assert rules.get("clientid", "d") == []
    assert rules.fault == ""
    with pytest.raises(StorageDamagedError):
        list(rules.walk())
    check = validator(DATABASE)
    assert "cannot be read" in str(check(record.key_of("clientid", "c"), b"[1"))
    assert check(record.key_of("clientid", "c"), record.encode([ROW])) is None


async def test_what_is_not_open_is_not_written(state: LocalState) -> None:
    with pytest.raises(StorageClosedError):
        await BuiltInRules(state).put([OwnRules("all", "", [ROW])])
