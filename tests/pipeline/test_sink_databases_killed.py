"""Processes killed at every step of a transaction of a database sink: nothing is missing, nothing is there twice."""

import json
from pathlib import Path

import pytest

from support.dying import EXPECTED, assert_died, ends_of, write_batches
from support.mariadb import Mariadb, mariadb
from support.postgresql import Postgresql, postgresql
from support.redis import redis_server

pytestmark = [pytest.mark.service, pytest.mark.slow, pytest.mark.timeout(300)]


def test_each_batch_is_in_each_database_once(tmp_path: Path) -> None:
    (tmp_path / "mariadb").mkdir()
    (tmp_path / "redis").mkdir()
    with (
        postgresql() as first,
        mariadb(tmp_path / "mariadb") as second,
        redis_server(tmp_path / "redis") as third,
    ):
        sections = {**_sections("postgresql", first), **_sections("mariadb", second)}
        sections["redis append"] = third.section('command = [RPUSH, "${station}", "${n}"], batch_rows = 1')
        # One program for all: loading the sinks takes longer than bringing the batches.
        ends = ends_of("pipeline.database_driver", json.dumps(sections), *write_batches(tmp_path))
        assert_died(ends)
        assert {name for name, _, _ in ends} == sections.keys()
        for server in (first, second):
            assert _found(server) == EXPECTED, server
        with third.client() as client:
            found = [(key, int(n)) for key in client.keys("???") for n in client.lrange(key, 0, -1)]
    assert sorted(found) == EXPECTED["append"]


def _sections(name: str, server: Postgresql | Mariadb) -> dict[str, str]:
    keys = {"update": ", key = [station]"}
    return {
        f"{name} {mode}": server.section(f"table = {mode}_obs, create = true, batch_rows = 1{keys.get(mode, '')}")
        for mode in EXPECTED
    }


def _found(server: Postgresql | Mariadb) -> dict[str, list[tuple[str, int]]]:
    return {mode: sorted(server.query(f"SELECT station, n FROM {mode}_obs")) for mode in EXPECTED}
