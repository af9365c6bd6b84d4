"""What a backup shows of databases that are written meanwhile, and how its files are written."""

import ctypes
import errno
import os
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from heliograph.storage.backup import direct_file
from heliograph.storage.backup.capture import copy_others, tidy_databases
from heliograph.storage.backup.direct_file import PIECE_BYTES, write_past_the_cache
from heliograph.storage.backup.moment import LinkedDatabases, positions
from heliograph.storage.engine import new_batch, open_to_read, records
from heliograph.storage.store import Store


@pytest.fixture
def work(tmp_path: Path) -> Path:
    work = tmp_path / "work"
    work.mkdir()
    return work


def opened(data_dir: Path, name: str) -> Store:
    store = Store(name, data_dir / "state" / name, "lz4", lambda rocks: None)
    store.open()
    return store


def put(store: Store, *numbers: int) -> None:
    batch = new_batch()
    for number in numbers:
        batch.put(b"%04d" % number, b"value")
    store.write(batch)


def numbers_in(work: Path, name: str) -> list[int]:
    with closing(open_to_read(work / "state" / name)) as rocks:
        return [int(key) for key, _ in records(rocks, b"", b"\xff")]


def flushed(store: Store) -> None:
    with store.reading() as rocks:
        rocks.flush()


def merged(store: Store) -> None:
    with store.reading() as rocks:
        rocks.flush()
        rocks.compact_range(None, None)


def reopened(store: Store) -> None:
    store.open()


@pytest.mark.parametrize("change", [flushed, merged, reopened])
def test_tables_that_changed_since_they_were_linked_are_linked_again(
    tmp_path: Path, work: Path, change: Callable[[Store], None]
) -> None:
    store = opened(tmp_path, "one")
    put(store, 1)
    flushed(store)
    put(store, 2)
    links = LinkedDatabases(tmp_path, work)
    files = links.link()
    put(store, 3)
    change(store)
    assert not links.are_those_of(positions(tmp_path, files))
    files = links.link()
    put(store, 4)
    moment = positions(tmp_path, files)
    put(store, 5)
    merged(store)  # after the moment: what it removes is linked
    links.complete(moment)
    tidy_databases(work)
    assert numbers_in(work, "one") == [1, 2, 3, 4]
    store.close()


def test_all_databases_show_one_moment_and_no_table_that_is_not_theirs(tmp_path: Path, work: Path) -> None:
    first, second = opened(tmp_path, "one"), opened(tmp_path, "two")
    (tmp_path / "state" / "one" / "999999.sst").write_bytes(b"the beginning of a table")
    links = LinkedDatabases(tmp_path, work)
    files = links.link()
    put(first, 1)
    put(second, 1)
    moment = positions(tmp_path, files)
    put(first, 2)
    assert links.are_those_of(moment)
    links.complete(moment)
    tidy_databases(work)
    assert [numbers_in(work, name) for name in ("one", "two")] == [[1], [1]]
    assert not list(work.rglob("999999.sst"))
    first.close()
    second.close()


def test_a_database_that_is_made_meanwhile_is_not_left_out(tmp_path: Path, work: Path) -> None:
    first = opened(tmp_path, "one")
    links = LinkedDatabases(tmp_path, work)
    files = links.link()
    moment = positions(tmp_path, files)
    second = opened(tmp_path, "two")
    assert not links.are_those_of(moment)
    first.close()
    second.close()


@pytest.mark.parametrize("size", [0, 1, 4095, 4096, 4097, PIECE_BYTES, PIECE_BYTES + 1, 3 * PIECE_BYTES - 7])
def test_a_file_of_any_size_is_what_was_written(tmp_path: Path, size: int) -> None:
    content = os.urandom(size)
    chunks = [content[begin : begin + 100_003] for begin in range(0, size, 100_003)]
    build = Path("build")  # on a disk, where pytest's own directory may be memory
    build.mkdir(exist_ok=True)
    with TemporaryDirectory(dir=build) as disk:
        for folder in (tmp_path, Path(disk)):
            write_past_the_cache(folder / "file", chunks, size)
            assert (folder / "file").read_bytes() == content


def test_keys_for_operators_are_secrets_wherever_they_lie(tmp_path: Path) -> None:
    data, link = tmp_path / "data", tmp_path / "link"
    (data / "keys").mkdir(parents=True)
    (data / "keys/key.pem").write_text("a key")
    link.symlink_to(data)
    places = ((data, "keys"), (data, f"{data}/keys"), (data, f"{link}/keys"), (link, f"{data}/keys"), (data, "/other"))
    for number, (data_dir, tls_dir) in enumerate(places):
        for secrets in (False, True):
            work = tmp_path / f"{number}-{secrets}"
            work.mkdir()
            copy_others(data_dir, work, secrets=secrets, tls_dir=tls_dir)
            assert (work / "keys/key.pem").exists() is (secrets or tls_dir == "/other")


@pytest.mark.parametrize(("code", "is_full"), [(errno.EOPNOTSUPP, False), (errno.ENOSPC, True)])
def test_blocks_are_set_aside_only_where_the_file_system_can(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int, is_full: bool
) -> None:
    class Library:
        def fallocate(self, *_: int) -> int:
            ctypes.set_errno(code)
            return -1

    monkeypatch.setattr(direct_file, "LIBC", Library())
    if is_full:
        with pytest.raises(OSError, match="No space left"):
            write_past_the_cache(tmp_path / "file", [b"content"], 7)
    else:
        write_past_the_cache(tmp_path / "file", [b"content"], 7)
        assert (tmp_path / "file").read_bytes() == b"content"
