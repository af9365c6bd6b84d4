"""`heliograph storage` as its user sees it: what it prints, its exit code, and what it leaves alone."""

import fcntl
import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from pyarrow import dataset

from heliograph.cli.main import main
from heliograph.storage.columnar import keys
from heliograph.storage.columnar.database import LocalDatabase
from heliograph.storage.columnar.node_databases import databases_path
from heliograph.storage.engine import open_primary, records
from heliograph.storage.interface import ColumnarOptions, DatabaseOptions, StoredMessage
from heliograph.storage.offload.blocks import OffloadedBlocks
from reference.storage import replayed
from storage.offloading import offload
from support.databases import numbers_of, open_database, store_batch


def message(number: int, topic: str = "a/b", payload: bytes | None = None) -> StoredMessage:
    return StoredMessage(number, number, topic, payload or b"%d" % number, 1, False, "c", None, b"", 0)


def open_messages(data_dir: Path, n_shards: int = 1) -> LocalDatabase:
    options = DatabaseOptions(n_shards=n_shards, layout=ColumnarOptions(wildcard_thresholds=(100, 2)))
    return open_database(data_dir, options=options)


def read(data_dir: Path, topic_filter: str = "#") -> list[int]:
    """The numbers of the messages that a filter finds."""
    database = open_messages(data_dir)
    found = numbers_of(database, topic_filter)
    database.close()
    return found


class Command:
    """Runs `heliograph storage ... --data-dir` and takes what it says."""

    def __init__(self, data_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.data_dir = data_dir
        self._capsys = capsys

    def __call__(self, *words: str) -> tuple[int, str, str]:
        code = main(["storage", *words, "--data-dir", str(self.data_dir)])
        said = self._capsys.readouterr()
        return code, said.out, said.err

    def json(self, *words: str, code: int = 0) -> Any:
        ended, out, err = self(*words, "--json")
        assert (ended, err) == (code, "")
        return json.loads(out)


@pytest.fixture
def command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Command:
    return Command(tmp_path / "data", capsys)


def damage_a_block(data_dir: Path, number: int) -> int:
    """Change a byte of one of the blocks, as a bad disk might; returns its time."""
    rocks = open_primary(databases_path(data_dir) / "messages", "zstd")
    key, value = list(records(rocks, b"B", b"C"))[number]
    rocks.put(key, value[:-4] + b"\x07" + value[-3:])
    rocks.close()
    time, _ = keys.time_and_sequence(key)
    return time


def damage_a_file(data_dir: Path) -> None:
    """Change a byte in the middle of the largest table."""
    table = max((databases_path(data_dir) / "messages").glob("*.sst"), key=lambda path: path.stat().st_size)
    content = bytearray(table.read_bytes())
    content[len(content) // 3] ^= 0xFF
    table.write_bytes(content)


def test_ls_and_info_of_a_running_node_and_of_a_stopped_one(command: Command) -> None:
    database = open_messages(command.data_dir, n_shards=2)
    store_batch(database, [message(1), message(2), message(3, "x/y")])
    database.add_generation()
    store_batch(database, [message(4)])
    for _ in ("open", "closed"):
        (facts,) = command.json("ls")
        assert (facts["database"], facts["messages"], facts["shards"], facts["generations"]) == ("messages", 4, 2, 2)
        info = command.json("info")
        assert [(one["shard"], one["generation"], one["messages"]) for one in info["generations"]][-2:] == [
            (1, 1, 3),
            (1, 2, 1),
        ]
        assert info["generations"][0]["until"] == info["generations"][1]["since"]
        assert info["message_bytes"] == 4 * 4
        code, out, _ = command("ls")
        assert code == 0
        assert out.startswith("messages  4 messages, 16 B, ")
        assert "shard 1, generation 2 (columnar 1)" in command("info", "messages")[1]
        database.close()
    assert not list((databases_path(command.data_dir)).glob(".readers"))


def test_lts_prints_the_learned_structure(command: Command) -> None:
    database = open_messages(command.data_dir)
    store_batch(database, [message(n, f"fleet/{n}/pos") for n in range(5)] + [message(9, "fleet/0/speed")])
    code, out, _ = command("lts")
    assert code == 0
    assert out == (
        "shard 0, generation 1, thresholds [100, 2]\n"
        "  fleet/\n"
        "    +/\n"
        "      pos  [messages/0/1/3: 3 messages]\n"
        "    0/\n"
        "      pos  [messages/0/1/1: 1 messages]\n"
        "      speed  [messages/0/1/4: 1 messages]\n"
        "    1/\n"
        "      pos  [messages/0/1/2: 1 messages]\n"
    )
    (generation,) = command.json("lts", "--shard", "0", "--generation", "1")
    assert [stream["topics"] for stream in generation["streams"]][2] == "fleet/+/pos"
    assert command.json("lts", "--generation", "2") == []
    database.close()


def test_what_is_not_there_is_named(command: Command) -> None:
    for action in ("ls", "info", "lts", "check"):
        code, out, err = command(action)
        assert (code, out) == (1, "")
        assert err.startswith("heliograph: [storage_unknown_database] ")
    open_messages(command.data_dir).close()
    assert "there are: messages" in command("info", "mesages")[2]


def test_a_whole_database_passes_the_check(command: Command) -> None:
    database = open_messages(command.data_dir)
    for number in range(20):
        store_batch(database, [message(number, f"fleet/{number % 7}/pos")])
    report = command.json("check")
    assert (report["damaged"], report["messages"], report["blocks"]) == (False, 20, 20)
    assert command("check")[1] == "messages: 20 messages in 20 blocks read, whole\n"
    database.close()


def test_a_damaged_block_is_named_and_mended(command: Command) -> None:
    database = open_messages(command.data_dir)
    for number in range(10):
        store_batch(database, [message(2 * number), message(2 * number + 1)])
    database.close()
    time = damage_a_block(command.data_dir, 4)
    report = command.json("check", code=1)
    (damage,) = report["damages"]
    assert (damage["stream"], damage["since"], damage["until"]) == ("messages/0/1/1", time, time)
    assert (damage["messages"], report["messages"]) == (2, 18)
    code, out, _ = command("check")
    assert code == 1
    assert out.startswith("shard 0, stream messages/0/1/1, ")
    assert "checksum" in out
    mended = command.json("check", "--repair")
    assert mended["messages"] == 18
    assert (Path(mended["kept"]) / "CURRENT").is_file()
    assert command.json("check")["messages"] == 18
    assert read(command.data_dir) == [number for number in range(20) if number not in (8, 9)]
    assert command("check", "--repair")[1].endswith("there was nothing to mend\n")


def test_a_damaged_file_costs_only_what_lies_in_the_damaged_piece(command: Command) -> None:
    database = open_messages(command.data_dir)
    for number in range(300):
        store_batch(database, [message(number, f"fleet/{number % 5}/pos", os.urandom(1000))])
    database.close()
    damage_a_file(command.data_dir)
    report = command.json("check", code=1)
    lost = sum(damage["messages"] for damage in report["damages"])
    assert 20 < lost < 60
    assert lost + report["messages"] == 300
    assert command.json("check", "--repair")["messages"] == 300 - lost
    assert command.json("check")["damaged"] is False
    everything = read(command.data_dir)
    assert len(everything) == 300 - lost
    assert read(command.data_dir, "fleet/4/pos") == [number for number in sorted(everything) if number % 5 == 4]


def test_a_database_that_does_not_open_is_mended(command: Command) -> None:
    database = open_messages(command.data_dir)
    for number in range(50):
        store_batch(database, [message(number, f"fleet/{number % 5}/pos")])
    database.close()
    (manifest,) = database.path.glob("MANIFEST-*")
    manifest.write_bytes(manifest.read_bytes()[:20] + b"\0" * 40)
    (facts,) = command.json("ls", code=1)
    assert facts["problem"].startswith("[storage_")
    code, _, err = command("check")
    assert code == 1
    assert "database 'messages'" in err
    assert command.json("check", "--repair")["messages"] == 50
    assert sorted(read(command.data_dir)) == list(range(50))


def test_what_cannot_be_mended_stays_as_it_is(command: Command) -> None:
    database = open_messages(command.data_dir)
    store_batch(database, [message(1)])
    database.close()
    for table in database.path.glob("*.sst"):
        table.write_bytes(b"\0" * 1000)
    before = {path.name: path.read_bytes() for path in database.path.iterdir()}
    code, _, err = command("check", "--repair")
    assert code == 1
    assert err.startswith("heliograph: [storage_")
    assert {path.name: path.read_bytes() for path in database.path.iterdir()} == before


def test_a_running_node_is_not_mended(command: Command) -> None:
    open_messages(command.data_dir).close()
    with (command.data_dir / "node.lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        code, _, err = command("check", "--repair")
    assert code == 1
    assert err.startswith("heliograph: [storage_in_use] a running node uses it")


def test_reading_changes_nothing(command: Command, tmp_path: Path) -> None:
    database = open_messages(command.data_dir)
    store_batch(database, [message(1)])
    database.close()
    before = {path.name: path.read_bytes() for path in database.path.iterdir()}
    for action in ("ls", "info", "lts", "check"):
        assert command(action)[0] == 0
    assert {path.name: path.read_bytes() for path in database.path.iterdir()} == before
    moved = Path(shutil.move(command.data_dir, tmp_path / "elsewhere"))
    assert main(["storage", "ls", "--data-dir", str(moved)]) == 0


def test_export_writes_closed_generations_as_parquet_once(command: Command, tmp_path: Path) -> None:
    target = tmp_path / "lake"
    database = open_messages(command.data_dir, n_shards=2)
    for number in range(20):
        store_batch(database, [message(number, f"fleet/{number % 5}/pos")])
    database.add_generation()
    store_batch(database, [message(20, "fleet/0/pos"), message(21, "$app/x")])
    report = command.json("export", "--to", str(target))
    assert (report["messages"], report["generations"], report["damages"]) == (20, 1, 0)
    table = dataset.dataset(target, partitioning="hive").to_table().sort_by("received_at")
    assert table.column("payload").to_pylist() == [b"%d" % number for number in range(20)]
    assert set(table.column("database").to_pylist()) == {"messages"}
    assert set(table.column("shard").to_pylist()) == {1}
    (file,) = target.rglob("*.parquet")
    stored_at = table.column("stored_at").to_pylist()[0]
    assert file.relative_to(target).parts == (
        "database=messages",
        "shard=1",
        f"day={stored_at.date().isoformat()}",
        "generation-1.parquet",
    )
    assert command("export", "--to", str(target))[1] == (
        "0 messages of 0 generations in 0 files; 1 generations had been exported before\n"
    )
    database.add_generation()
    assert command.json("export", "--to", target.as_uri())["messages"] == 2
    assert dataset.dataset(target, partitioning="hive").count_rows() == 22
    database.close()


def test_export_of_some_topics_and_of_what_is_still_written(command: Command, tmp_path: Path) -> None:
    database = open_messages(command.data_dir)
    for number in range(20):
        store_batch(database, [message(number, f"fleet/{number % 5}/pos")])
    database.close()
    target = tmp_path / "lake"
    report = command.json("export", "--to", str(target), "--current", "--topic", "fleet/3/pos", "--topic", "fleet/0/+")
    assert report["messages"] == 8
    numbers = dataset.dataset(target, partitioning="hive").to_table().column("payload").to_pylist()
    assert sorted(map(int, numbers)) == [number for number in range(20) if number % 5 in (0, 3)]
    assert not list(target.rglob("*.json"))
    damage_a_block(command.data_dir, 0)
    code, _, err = command("export", "--to", str(target), "--current")
    assert code == 1
    assert err.startswith("heliograph: [storage_damaged]")
    assert "`heliograph storage check --repair messages`" in err
    code, out, _ = command("export", "--to", str(target), "--current", "--on-damage", "skip")
    assert code == 0
    assert out.startswith("19 messages of 1 generations")
    assert "1 damaged places were left out" in out
    assert "[storage_export]" in command("export", "--to", "nothing://there")[2]
    assert "[storage_invalid_filter]" in command("export", "--to", str(target), "--topic", "a/#/b")[2]


def test_what_was_offloaded_is_told_exported_checked_and_mended(command: Command, tmp_path: Path) -> None:
    database = open_messages(command.data_dir)
    for number in range(30):
        store_batch(database, [message(number, f"fleet/{number % 5}/pos")])
    database.add_generation()
    for number in range(30, 40):
        store_batch(database, [message(number, f"fleet/{number % 5}/pos")])
    offload(database, 1, "cold")
    database.close()
    first, second = command.json("info")["generations"]
    assert (first["offloaded"]["target"], first["offloaded"]["state"]) == ("cold", "offloaded")
    assert (first["offloaded"]["files"], first["messages"], second["offloaded"]) == (1, 30, None)
    assert "30 messages, " in command("info")[1]
    assert ", offloaded to cold: 1 files, " in command("info")[1]
    report = command.json("export", "--to", str(tmp_path / "lake"), "--current")
    assert report["messages"] == 40
    assert command.json("check")["messages"] == 40
    (command.data_dir / "node.lock").touch()
    damage_a_block(command.data_dir, -1)
    command.json("check", "--repair")
    mended = open_messages(command.data_dir)
    mended.fetch = OffloadedBlocks(command.data_dir).fetch
    assert [int(one.payload) for one in replayed(mended, "fleet/3/pos")] == [3, 8, 13, 18, 23, 28, 33, 38]
    assert len(replayed(mended)) == 39
    mended.close()


def test_offload_on_command_takes_all_closed_generations(command: Command, tmp_path: Path) -> None:
    database = open_messages(command.data_dir, n_shards=2)
    for number in range(3):
        store_batch(database, [message(number), message(100 + number, "x/y")])
        database.add_generation()
    code, _, err = command("offload", "--to", str(tmp_path / "cold"), "--dry-run")
    assert (code, err) == (0, "")
    database.close()
    (command.data_dir / "node.lock").touch()
    facts = command.json("offload", "--to", str(tmp_path / "cold"), "--dry-run")
    assert (facts["generations"], facts["messages"], list(tmp_path.glob("cold/**/*.parquet"))) == (3, 6, [])
    assert command.json("offload", "--to", str(tmp_path / "cold")) == {**facts, "dry_run": False}
    assert all(one["offloaded"] for one in command.json("info")["generations"] if one["until"] is not None)
    assert command.json("offload", "--to", str(tmp_path / "cold"))["generations"] == 0
    assert command.json("export", "--to", str(tmp_path / "lake"))["messages"] == 6


def test_offload_on_command_leaves_a_running_node_alone(command: Command, tmp_path: Path) -> None:
    open_messages(command.data_dir).close()
    with (command.data_dir / "node.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        code, _, err = command("offload", "--to", str(tmp_path / "cold"))
    assert (code, "[storage_in_use]" in err) == (1, True)
