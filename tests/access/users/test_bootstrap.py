"""Files of users: what is taken of them, and that a bad one brings nothing."""

import asyncio
import threading
from pathlib import Path

import pytest

from heliograph.access.passwords import PasswordPool, PasswordsBusyError, verify
from heliograph.access.users.files import UserFileError
from heliograph.access.users.intake import read_bootstrap
from heliograph.access.users.records import PasswordUser
from heliograph.access.users.store import UserStore
from heliograph.config.passwords import PasswordHashAlgorithm, PasswordThreads
from heliograph.storage.state.local import LocalState
from support.cases import cases
from support.waiting import until


async def test_a_bootstrap_file_brings_new_users_and_keeps_those_that_are_there(tmp_path: Path) -> None:
    store, pool = UserStore(lambda: opened(tmp_path)), PasswordPool(PasswordThreads())
    users = store.group(PasswordUser, "", "password_based:built_in_database")
    file = tmp_path / "users.csv"
    file.write_bytes(b"password,user_id,is_superuser,more\r\n\r\none,ann,true,x\rtwo bob false x\none,ann,false,x\n")
    algorithm = PasswordHashAlgorithm("bcrypt", salt_rounds=5)
    await (await read_bootstrap(str(file), "plain", algorithm)).add(users, pool)
    ann, bob = users.find("ann"), users.find("bob")
    assert ann is not None
    assert bob is not None
    assert (ann.is_superuser, bob.is_superuser) == (True, False)
    assert verify(algorithm, b"one", ann.password_hash, ann.salt)
    assert ann.algorithm is not None
    assert ann.algorithm.name == "bcrypt"

    file = tmp_path / "users.json"
    file.write_text('[{"user_id": "ann", "password_hash": "x"}, {"user_id": "cid", "password_hash": "y", "salt": "z"}]')
    await (await read_bootstrap(str(file), "hash", algorithm)).add(users, pool)
    assert users.find("ann") == ann
    assert users.find("cid") == PasswordUser(b"y", b"z")
    pool.stop()
    await store.close()


async def test_users_of_a_bootstrap_file_wait_where_logins_are_refused(tmp_path: Path) -> None:
    store, pool = UserStore(lambda: opened(tmp_path)), PasswordPool(PasswordThreads(threads=1, max_waiting=1))
    users = store.group(PasswordUser, "", "password_based:built_in_database")
    file = tmp_path / "users.csv"
    file.write_text("user_id,password\nann,one\n")
    free = threading.Event()
    held = pool.run(lambda: free.wait(30))
    with pytest.raises(PasswordsBusyError):
        pool.run(bool)
    bootstrap = await read_bootstrap(str(file), "plain", PasswordHashAlgorithm("bcrypt", salt_rounds=5))
    adding = asyncio.create_task(bootstrap.add(users, pool))
    await until(lambda: pool.statistics()["passwords.waiting"] == 2)
    free.set()
    assert await held
    await adding
    assert users.find("ann") is not None
    pool.stop()
    await store.close()


@cases(
    ("name", "kind", "text", "told"),
    [
        ("u.csv", "plain", b"user_id,password\nann,one\nbob\n", "line 3 has 1 fields"),
        ("u.csv", "plain", b"user_id,password\nann,one two\n", "line 2 has 3 fields"),
        ("u.csv", "hash", b"user_id,password\nann,one\n", "line 2 has no password_hash"),
        ("u.csv", "plain", b"user_id,password\n", "no user"),
        ("u.csv", "plain", b"user_id,password\nann,\xff\n", "UTF-8"),
        ("u.csv", "plain", b"user_id,password\nann," + b"x" * 73, "bcrypt may have 72"),
        ("u.CSV", "plain", b"user_id,password\nann,one\n", ".csv or .json"),
        ("u.json", "plain", b'{"user_id": "ann", "password": "one"}', "a JSON list"),
        ("u.json", "plain", b'[{"user_id": "ann", "password": "one"}, 1]', "element 2"),
        ("u.json", "plain", b'[{"user_id": "ann", "password": 1}]', "no text as password"),
        ("u.json", "hash", b'[{"user_id": "ann", "password_hash": "x", "salt": null}]', "salt"),
        ("u.json", "plain", b"[", "no JSON"),
    ],
)
async def test_a_file_with_a_bad_record_is_refused_as_a_whole(
    tmp_path: Path, name: str, kind: str, text: bytes, told: str
) -> None:
    (tmp_path / name).write_bytes(text)
    with pytest.raises(UserFileError, match=told):
        await read_bootstrap(str(tmp_path / name), kind, PasswordHashAlgorithm("bcrypt"))


def opened(directory: Path) -> LocalState:
    state = LocalState(directory, "users")
    state.open()
    return state
