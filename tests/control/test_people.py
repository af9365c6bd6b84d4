"""Users and API keys of a node are added, changed, deleted and found again after a restart, by those who ask it."""

import asyncio
import inspect
from collections.abc import Callable, Coroutine, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
import pytest

from heliograph.access.people.passwords import HASH_START
from heliograph.access.people.store import DATABASE, PeopleStore, load_keys
from heliograph.control import people
from heliograph.control.proto_v1 import people as proto
from heliograph.rpc.methods import HIDDEN, Call, NoArgs, RpcError, arguments_of
from heliograph.storage.state.local import LocalState
from support.asking import CALL

HASH = f"{HASH_START}c2FsdHNhbHRzYWx0$aGFzaGhhc2g"
SECRET = b"s" * 32


class World:
    """The people of a data directory; `now_s` is the time."""

    def __init__(self, directory: Path) -> None:
        state = LocalState(directory, DATABASE)
        self.now_s = 1_000
        self.path = state.path
        self.store = PeopleStore(state, self.path.exists)
        self.methods = {method.name: method for method in people.methods(self.store, lambda: self.now_s)}

    async def ask(self, name: str, args: msgspec.Struct = NoArgs(), call: Call = CALL) -> Any:  # noqa: B008
        """The answer of a method, as an asker has it."""
        answer = self.methods[f"people.{name}"].handler(args, call)
        if inspect.isawaitable(answer):
            return await answer
        return [row for rows in answer for row in rows] if isinstance(answer, Iterator) else answer

    async def refused(self, name: str, args: msgspec.Struct, call: Call = CALL) -> str:
        """The code with which something is refused."""
        with pytest.raises(RpcError) as refused:
            await self.ask(name, args, call)
        return refused.value.code


def in_world(tmp_path: Path, test: Callable[[World], Coroutine[Any, Any, None]]) -> None:
    async def run() -> None:
        world = World(tmp_path)
        try:
            await test(world)
        finally:
            await world.store.close()

    asyncio.run(run())


def test_a_node_without_people_has_no_database_of_them(tmp_path: Path) -> None:
    async def test(world: World) -> None:
        assert (await world.ask("revision")).revision == 0
        assert await world.ask("users") == await world.ask("keys") == await world.ask("user_secrets") == []
        assert await world.refused("user_delete", proto.ManagementUserName("ann")) == "not_found"
        assert not world.path.exists()

    in_world(tmp_path, test)


def test_users_outlast_a_restart_and_every_change_is_a_revision(tmp_path: Path) -> None:
    async def first(world: World) -> None:
        added = await world.ask("user_add", proto.NewManagementUser("ann", HASH, description="Ann"))
        assert added == proto.ManagementUserRow("ann", "administrator", "Ann", 1_000, False, False)
        assert await world.refused("user_add", proto.NewManagementUser("ann", HASH)) == "already_exists"
        assert (await world.ask("user_set", proto.ManagementUserChange("ann", role="viewer"))).role == "viewer"
        assert (await world.ask("revision")).revision == 2

    async def second(world: World) -> None:
        (ann,) = await world.ask("user_secrets")
        assert (ann.user.username, ann.user.role, ann.user.description) == ("ann", "viewer", "Ann")
        assert (ann.version, ann.password_hash) == (2, HASH)
        await world.ask("user_delete", proto.ManagementUserName("ann"))
        await world.ask("user_add", proto.NewManagementUser("ann", HASH))
        assert (await world.ask("user_secrets"))[0].version == 4  # tokens of the one before do not count

    in_world(tmp_path, first)
    in_world(tmp_path, second)


def test_what_no_user_or_key_can_be_is_refused(tmp_path: Path) -> None:
    async def test(world: World) -> None:
        for args in (
            proto.NewManagementUser("a b", HASH),
            proto.NewManagementUser("ann", "plain text"),
            proto.NewManagementUser("ann", HASH, role="publisher"),
            proto.NewManagementUser("ann", HASH, description="x" * 1025),
        ):
            assert await world.refused("user_add", args) == "people_invalid"
        for key in (
            proto.NewApiKey("1st", "k", SECRET),
            proto.NewApiKey("key", "k", b"short"),
            proto.NewApiKey("key", "k:k", SECRET),
            proto.NewApiKey("key", "k", SECRET, role="root"),
        ):
            assert await world.refused("key_add", key) == "people_invalid"
        await world.ask("user_add", proto.NewManagementUser("ann", HASH))
        assert await world.refused("user_set", proto.ManagementUserChange("ann")) == "people_invalid"
        assert await world.refused("user_add", proto.NewManagementUser("bob", HASH, is_first=True)) == "already_exists"

    in_world(tmp_path, test)


def test_two_first_users_at_once_are_one(tmp_path: Path) -> None:
    async def test(world: World) -> None:
        both = [world.ask("user_add", proto.NewManagementUser(name, HASH, is_first=True)) for name in ("ann", "bob")]
        ended = await asyncio.gather(*both, return_exceptions=True)
        assert [isinstance(one, RpcError) for one in ended] == [False, True]

    in_world(tmp_path, test)


def test_of_two_administrators_at_once_one_stays(tmp_path: Path) -> None:
    def gone(name: str, how: str) -> tuple[str, msgspec.Struct]:
        if how == "delete":
            return "user_delete", proto.ManagementUserName(name, keeps_administrator=True)
        return "user_set", proto.ManagementUserChange(name, role="viewer", keeps_administrator=True)

    async def test(world: World) -> None:
        for first, second in (("delete", "delete"), ("set", "set"), ("delete", "set")):
            for name in ("ann", "bob"):
                with suppress(RpcError):
                    await world.ask("user_add", proto.NewManagementUser(name, HASH))
                await world.ask("user_set", proto.ManagementUserChange(name, role="administrator"))
            both = [world.ask(*gone("ann", first)), world.ask(*gone("bob", second))]
            ended = await asyncio.gather(*both, return_exceptions=True)
            assert [getattr(one, "code", "done") for one in ended] == ["done", "last_administrator"]
        assert await world.refused(*gone("bob", "delete")) == "last_administrator"
        await world.ask("user_delete", proto.ManagementUserName("bob"))  # by the owner of the machine

    in_world(tmp_path, test)


def test_a_code_of_a_second_factor_counts_once_and_ends_no_login(tmp_path: Path) -> None:
    async def test(world: World) -> None:
        await world.ask("user_add", proto.NewManagementUser("ann", HASH))
        await world.ask("user_second_factor", proto.SecondFactor("ann", b"k" * 20, (b"1" * 32, b"2" * 32), 5))
        (ann,) = await world.ask("user_secrets")
        assert ann.user.has_second_factor

        def login(step: int = 0, recovery: bytes = b"", version: int = ann.version) -> proto.ManagementLogin:
            return proto.ManagementLogin("ann", version, "127.0.0.1", step, recovery)

        assert await world.refused("user_logged_in", login()) == "code_used"
        assert await world.refused("user_logged_in", login(5)) == "code_used"
        await world.ask("user_logged_in", login(6))
        assert await world.refused("user_logged_in", login(6)) == "code_used"
        await world.ask("user_logged_in", login(recovery=b"1" * 32))
        assert await world.refused("user_logged_in", login(recovery=b"1" * 32)) == "code_used"
        (after,) = await world.ask("user_secrets")
        assert (after.version, after.user.recovery_codes) == (ann.version, 1)
        await world.ask("user_set", proto.ManagementUserChange("ann", description="x"))
        assert await world.refused("user_logged_in", login(7)) == "login_outdated"

    in_world(tmp_path, test)


def test_a_key_is_changed_ends_and_is_deleted(tmp_path: Path) -> None:
    async def test(world: World) -> None:
        await world.ask("key_add", proto.NewApiKey("a", "k1", SECRET, expires=1_500))
        assert await world.refused("key_add", proto.NewApiKey("a", "k2", SECRET)) == "already_exists"
        assert await world.refused("key_add", proto.NewApiKey("b", "k1", SECRET)) == "already_exists"
        await world.ask("key_add", proto.NewApiKey("b", "k2", SECRET))
        await world.ask("key_add", proto.NewApiKey("a", "k2", SECRET, expires=1_500, replaces=True))
        assert [(row.name, row.api_key) for row in await world.ask("keys")] == [("a", "k2")]
        changed = await world.ask("key_set", proto.ApiKeyChange("a", role="viewer", enable=False))
        assert (changed.role, changed.enable, changed.expired) == ("viewer", False, False)
        world.now_s = 1_500
        (key,) = await world.ask("key_secrets")
        assert key.key.expired
        assert (await world.ask("key_set", proto.ApiKeyChange("a", expires=0))).expires is None
        await world.ask("key_delete", proto.ApiKeyName("a"))
        assert await world.ask("keys") == []
        for number in range(100):
            await world.ask("key_add", proto.NewApiKey(f"a{number}", f"k{number}", SECRET))
        assert await world.refused("key_add", proto.NewApiKey("b", "k", SECRET, replaces=True)) == "people_full"
        await world.ask("key_add", proto.NewApiKey("a7", "k", SECRET, replaces=True))

    in_world(tmp_path, test)


def test_hashes_are_told_to_the_node_s_own_user_only_and_to_no_audit(tmp_path: Path) -> None:
    async def test(world: World) -> None:
        for name in ("user_secrets", "key_secrets"):
            assert await world.refused(name, NoArgs(), Call("eve (uid 7)", "a test")) == "not_permitted"
        secret: dict[str, tuple[msgspec.Struct, set[str]]] = {
            "user_add": (proto.NewManagementUser("ann", HASH), {"password_hash"}),
            "user_set": (proto.ManagementUserChange("ann", HASH), {"password_hash"}),
            "user_second_factor": (proto.SecondFactor("ann", b"key", (b"one",)), {"totp_secret", "recovery"}),
            "user_logged_in": (proto.ManagementLogin("ann", 1, "::1", recovery=b"one"), {"recovery"}),
            "key_add": (proto.NewApiKey("key", "k", SECRET), {"secret_hash"}),
        }
        for name, (args, fields) in secret.items():
            method = world.methods[f"people.{name}"]
            assert method.is_action
            told = arguments_of(method, args)
            assert {field for field, value in told.items() if value == HIDDEN} == fields

    in_world(tmp_path, test)


def test_a_key_is_replaced_also_where_a_file_has_more_than_may_be_made(tmp_path: Path) -> None:
    file = tmp_path / "keys"
    file.write_text("".join(f"k{number}:secret\n" for number in range(102)))

    async def test(world: World) -> None:
        assert await load_keys(world.store, str(file), world.now_s) == 102
        assert await world.refused("key_add", proto.NewApiKey("b", "k", SECRET, replaces=True)) == "people_full"
        await world.ask("key_add", proto.NewApiKey("a", "k7", SECRET, replaces=True))
        assert "a" in [row.name for row in await world.ask("keys")]

    in_world(tmp_path, test)


def test_the_keys_of_a_file_come_again_as_the_file_says(tmp_path: Path) -> None:
    file = tmp_path / "keys"

    async def test(world: World) -> None:
        async def load(text: str) -> int:
            file.write_text(text)
            return await load_keys(world.store, str(file), world.now_s)

        await world.ask("key_add", proto.NewApiKey("mine", "k2", SECRET))
        assert await load("k1:s1\nk2:s2:viewer\nk1:last\n") == 2
        rows = {row.api_key: row for row in await world.ask("keys")}
        assert sorted(rows) == ["k1", "k2"]  # the one that was called `mine` is replaced
        assert all(row.name.startswith("from_bootstrap_file_") for row in rows.values())
        assert {row.description for row in rows.values()} == {"Bootstrapped From File"}
        revision = (await world.ask("revision")).revision
        assert await load("k1:last\nk2:s2:viewer\n") == 0
        assert (await world.ask("revision")).revision == revision
        assert await load("k1:last:publisher\nnonsense\nk3:s3\n") == 1
        assert {row.api_key: row.role for row in await world.ask("keys")} == {"k1": "publisher", "k2": "viewer"}

    in_world(tmp_path, test)
