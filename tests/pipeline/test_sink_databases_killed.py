"""Processes killed at every step of a transaction of a database sink: nothing is missing, nothing is there twice."""

import json
from pathlib import Path

import pytest

from support.dying import EXPECTED, assert_died, ends_of, write_batches
from support.mariadb import Mariadb, mariadb
from support.postgresql import Postgresql, postgresql
from support.redis import redis_server

pytestmark = [pytest.mark.service, pytest.mark.slow]


def test_each_batch_is_in_postgresql_once(tmp_path: Path) -> None:
    with postgresql() as server:
        _kill_at_each_step(tmp_path, server)


def test_each_batch_is_in_mariadb_once(tmp_path: Path) -> None:
    with mariadb(tmp_path) as server:
        _kill_at_each_step(tmp_path, server)


def test_each_batch_is_in_redis_once(tmp_path: Path) -> None:
    with redis_server(tmp_path) as server:
        section = server.section('command = [RPUSH, "${station}", "${n}"], batch_rows = 1')
        assert_died(ends_of("pipeline.database_driver", json.dumps({"append": section}), *write_batches(tmp_path)))
        with server.client() as client:
            found = [(key, int(n)) for key in client.keys("???") for n in client.lrange(key, 0, -1)]
    assert sorted(found) == EXPECTED["append"]


def _kill_at_each_step(directory: Path, server: Postgresql | Mariadb) -> None:
    keys = {"update": ", key = [station]"}
    sections = {
        mode: server.section(f"table = {mode}_obs, create = true, batch_rows = 1{keys.get(mode, '')}")
        for mode in EXPECTED
    }
    assert_died(ends_of("pipeline.database_driver", json.dumps(sections), *write_batches(directory)))
    found = {mode: sorted(server.query(f"SELECT station, n FROM {mode}_obs")) for mode in EXPECTED}
    assert found == EXPECTED
