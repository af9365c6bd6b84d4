"""The users of built-in databases on a real disk."""

import asyncio
from collections.abc import Callable
from itertools import islice
from pathlib import Path

import pytest

from heliograph.access.users.records import PasswordUser, ScramUser, own_algorithm
from heliograph.access.users.store import UserExistsError, UserStore
from heliograph.config.passwords import PasswordHashAlgorithm
from heliograph.storage.state.local import LocalState
from support.durable import FakeState
from support.waiting import until

BUILT_IN = "password_based:built_in_database"


def opener(directory: Path) -> Callable[[], LocalState]:
    def open_state() -> LocalState:
        state = LocalState(directory, "users")
        state.open()
        return state

    return open_state


def user(name: str, *, is_superuser: bool = False) -> PasswordUser:
    return PasswordUser(name.encode(), b"salt", is_superuser)


async def test_users_are_on_the_disk_when_they_are_acknowledged(tmp_path: Path) -> None:
    store = UserStore(opener(tmp_path))
    group = store.group(PasswordUser, "", BUILT_IN)
    other = store.group(PasswordUser, "tcp:default", BUILT_IN)
    scram = store.group(ScramUser, "", "scram:built_in_database")
    pbkdf2 = PasswordHashAlgorithm("pbkdf2", mac_fun="sha512", iterations=101)
    own = PasswordUser(b"hash", b"\xff", True, own_algorithm(pbkdf2))
    await group.add("ann", own)
    await other.add("ann", user("another"))
    await scram.add("ann", ScramUser(b"s", b"k", b"salt", 4096, "sha256"))
    with pytest.raises(UserExistsError):
        await group.add("ann", user("x"))
    assert await group.delete("bob") is False
    await group.put("bob", user("b"))
    assert await group.delete("bob") is True
    await store.close()

    store = UserStore(opener(tmp_path))
    group = store.group(PasswordUser, "", BUILT_IN)
    assert group.find("ann") == own
    assert own.algorithm == pbkdf2
    assert group.find("bob") is None
    assert store.group(PasswordUser, "tcp:default", BUILT_IN).find("ann") == user("another")
    assert store.group(ScramUser, "", "scram:built_in_database").find("ann") == ScramUser(
        b"s", b"k", b"salt", 4096, "sha256"
    )
    await store.close()


async def test_a_list_goes_on_while_users_come_and_go(tmp_path: Path) -> None:
    store = UserStore(opener(tmp_path))
    group = store.group(PasswordUser, "", BUILT_IN)
    counts = await group.take(((f"u{number:03}", user("x")) for number in range(500)), overwrite=False)
    assert (counts.added, counts.kept) == (500, 0)
    walk = group.walk(after="u009")
    seen = [name for name, _ in islice(walk, 100)]
    await group.delete("u005")
    await group.delete("u300")
    await group.add("u2995", user("x"))
    seen += [name for name, _ in walk]
    expected = sorted({f"u{number:03}" for number in range(10, 500)} - {"u300"} | {"u2995"})
    assert seen == expected
    await store.close()


async def test_the_first_counts_for_a_bootstrap_file_and_the_last_for_an_import(tmp_path: Path) -> None:
    store = UserStore(opener(tmp_path))
    group = store.group(PasswordUser, "", BUILT_IN)
    await group.add("ann", user("old"))
    users = [("ann", user("1")), ("ann", user("2")), ("bob", user("1")), ("bob", user("2"))]
    kept = await group.take(users, overwrite=False)
    assert (kept.added, kept.overwritten, kept.kept) == (1, 0, 3)
    assert group.find("ann") == user("old")
    assert group.find("bob") == user("1")
    overwritten = await group.take(users, overwrite=True)
    assert overwritten.added == 0
    assert group.find("ann") == group.find("bob") == user("2")
    await store.close()


async def test_users_of_an_authenticator_that_is_gone_do_not_come_back(tmp_path: Path) -> None:
    store = UserStore(opener(tmp_path))
    group, other = store.group(PasswordUser, "", BUILT_IN), store.group(PasswordUser, "tcp:a", BUILT_IN)
    await group.take(((f"u{number}", user("x")) for number in range(1000)), overwrite=True)
    await other.add("u1", user("x"))
    store.delete_group("", BUILT_IN)
    await asyncio.sleep(0)
    await store.close()  # in the midst of it

    store = UserStore(opener(tmp_path))
    group, other = store.group(PasswordUser, "", BUILT_IN), store.group(PasswordUser, "tcp:a", BUILT_IN)
    assert other.find("u1") == user("x")
    assert (group.find("u1"), group.find("u999")) == (None, None)
    assert list(group.walk()) == []
    assert not await group.delete("u999")
    await group.add("u999", user("new"))
    assert list(group.walk()) == [("u999", user("new"))]
    assert other.find("u1") == user("x")
    await store.close()


async def test_a_group_that_is_deleted_again_while_it_is_deleted_keeps_the_users_of_later() -> None:
    state = FakeState({})
    store = UserStore(lambda: state)
    group = store.group(PasswordUser, "", BUILT_IN)
    store.delete_group("", BUILT_IN)
    await until(lambda: len(state.waiting) == 2)  # no user is left, and the disk is about to know it
    store.delete_group("", BUILT_IN)
    added = asyncio.create_task(group.add("ann", user("x")))
    while not added.done():
        await asyncio.sleep(0)  # the next change is made
        if state.waiting:
            state.commit()
    await added
    await store.close()

    later = FakeState(state.durable)
    store = UserStore(lambda: later)
    assert store.group(PasswordUser, "", BUILT_IN).find("ann") == user("x")
    await store.close()


async def test_the_log_says_how_many_users_went_with_their_authenticator(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store = UserStore(opener(tmp_path))
    await store.group(PasswordUser, "tcp:a", BUILT_IN).take(((f"u{n}", user("x")) for n in range(300)), overwrite=True)
    store.delete_group("tcp:a", BUILT_IN)
    await until(lambda: f"300 users of {BUILT_IN} of tcp:a are deleted" in caplog.text)
    await store.close()


async def test_users_that_come_while_those_of_an_authenticator_that_was_there_before_are_deleted_stay(
    tmp_path: Path,
) -> None:
    store = UserStore(opener(tmp_path))
    group = store.group(PasswordUser, "", BUILT_IN)
    await group.take(((f"u{number}", user("x")) for number in range(1000)), overwrite=True)
    store.delete_group("", BUILT_IN)
    again = store.group(PasswordUser, "", BUILT_IN)
    assert again.find("u999") is None
    counts = await again.take([("u999", user("new")), ("ann", user("new"))], overwrite=False)
    assert (counts.added, counts.kept) == (2, 0)
    store.delete_group("tcp:a", BUILT_IN)
    await store.group(PasswordUser, "tcp:a", BUILT_IN).add("u1", user("other"))
    assert [user_id for user_id, _ in again.walk()] == ["ann", "u999"]
    await store.close()
