"""Callers that may not change the configuration name few files of the node; texts in PEM become files of its own."""

import io
import stat
from collections.abc import Iterator
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import httpx
import pytest

from heliograph.cli.main import main
from support.certificates import Authority
from support.management import Served

URL = "https://127.0.0.1:9"


def connector(**ssl: str) -> dict[str, Any]:
    return {"type": "http", "name": "named", "url": URL, "ssl": {"enable": True, **ssl}}


def why(answer: httpx.Response) -> str:
    assert (answer.status_code, answer.json()["code"]) == (403, "UNAUTHORIZED_ROLE"), answer.text
    return str(answer.json()["message"])


@pytest.mark.parametrize("setting", ["cacertfile", "certfile", "keyfile"])
def test_operators_name_files_of_one_directory(managed: Served, operator: httpx.Client, setting: str) -> None:
    directory = managed.data_dir.absolute() / "tls"
    refused = why(operator.post("/connectors", json=connector(**{setting: "/etc/shadow"})))
    assert refused.startswith(f"ssl.{setting} is '/etc/shadow': expected a file below {directory} (node.tls_dir), or ")
    for other in (f"{directory}", f"{directory}/../node_id", "node_id", f"{managed.data_dir}/certs/keyfile-0.pem"):
        why(operator.post("/connectors", json=connector(**{setting: other})))
        why(operator.post("/connectors_probe", json=connector(**{setting: other})))
    made = operator.post("/connectors", json=connector(**{setting: f"{directory}/plant/a.pem"}))
    assert made.status_code == 201, made.text
    why(operator.put("/connectors/http:named", json=connector(**{setting: "/etc/shadow"})))
    # What an administrator has named stays named.
    shown = managed.api.put("/connectors/http:named", json=connector(**{setting: "/etc/any.pem"})).json()
    assert shown["ssl"][setting] == "/etc/any.pem"
    assert operator.put("/connectors/http:named", json={**shown, "pool_size": 3}).status_code == 200
    assert managed.api.delete("/connectors/http:named").status_code == 204


def test_the_directory_is_a_setting(managed: Served, operator: httpx.Client) -> None:
    conf = ["ctl", "--data-dir", str(managed.data_dir), "conf", "set"]
    with redirect_stdout(io.StringIO()):
        assert main([*conf, "node.tls_dir=/srv/tls"]) == 0
    assert operator.post("/connectors", json=connector(keyfile="/srv/tls/a.pem")).status_code == 201
    assert operator.delete("/connectors/http:named").status_code == 204
    with redirect_stdout(io.StringIO()):
        assert main([*conf, "node.tls_dir=null"]) == 0
    assert "below" in why(operator.post("/connectors", json=connector(keyfile="/srv/tls/a.pem")))
    with redirect_stdout(io.StringIO()):  # on the machine any file may be named
        assert main([*conf, f'connectors.http.named={{ url = "{URL}", ssl.keyfile = "/etc/any.pem" }}']) == 0
        assert main([*conf, "connectors.http.named=null"]) == 0


def test_the_text_of_a_key_becomes_a_file_of_the_node(managed: Served, operator: httpx.Client, tmp_path: Path) -> None:
    text = Path(Authority(tmp_path).server()).read_text()
    assert operator.post("/connectors_probe", json=connector(keyfile=text)).status_code == 400  # nothing listens there
    made = operator.post("/connectors", json=connector(certfile=text, keyfile=text))
    assert made.status_code == 201, made.text
    file = Path(made.json()["ssl"]["keyfile"])
    assert (file.parent, file.name[:8]) == (managed.data_dir.absolute() / "certs", "keyfile-")
    assert (file.read_text(), stat.S_IMODE(file.stat().st_mode)) == (text, 0o600)
    assert "BEGIN" not in (managed.data_dir / "configs" / "cluster.hocon").read_text()
    # What was read may be sent back; that file is not for another connector of the operator.
    shown = operator.get("/connectors/http:named").json()
    assert operator.put("/connectors/http:named", json=shown).json()["ssl"]["keyfile"] == str(file)
    why(operator.post("/connectors", json={**connector(keyfile=str(file)), "name": "other"}))
    assert operator.delete("/connectors/http:named").status_code == 204


def test_a_listener_takes_the_text_of_its_certificate(managed: Served, tmp_path: Path) -> None:
    text = Path(Authority(tmp_path).server()).read_text()
    conf = ["ctl", "--data-dir", str(managed.data_dir), "conf", "set"]
    with redirect_stdout(io.StringIO()):
        values = ['listeners.ssl.texts.bind="127.0.0.1:0"', f"listeners.ssl.texts.ssl_options.certfile={text}"]
        assert main([*conf, *values]) == 0
    shown = managed.api.get("/listeners/ssl:texts").json()
    assert Path(shown["ssl_options"]["certfile"]).read_text() == text
    assert managed.api.delete("/listeners/ssl:texts").status_code == 204


@pytest.mark.parametrize(
    "settings",
    [
        {"type": "iceberg", "catalog": {"py-io-impl": "os.path"}},
        {"type": "iceberg", "catalog": {"uri": "http://127.0.0.1:9"}},
        {"type": "iceberg", "catalog": {"pool_size": 1}},
        {"type": "delta", "place": "gs://b/x", "storage_options": {"google_service_account": "/etc/shadow"}},
        {"type": "parquet", "place": "FILE:///etc"},
        {"type": "disk_log", "filepath": "/tmp/log", "max_file_size": "1MB", "max_file_number": 2},
        {"type": "spark", "format": "org.example.Source"},
    ],
)
def test_operators_have_no_library_open_files(operator: httpx.Client, settings: dict[str, Any]) -> None:
    assert "only who may change the configuration" in why(operator.post("/connectors", json={**settings, "name": "n"}))


def test_a_schema_service_has_its_files_there_too(operator: httpx.Client) -> None:
    parameters = {"url": URL, "ssl": {"cacertfile": "/etc/shadow"}}
    body = {"name": "far", "type": "external_http", "parameters": parameters}
    assert "parameters.ssl.cacertfile is '/etc/shadow'" in why(operator.post("/schema_registry", json=body))


@pytest.fixture
def bounded(managed: Served) -> Iterator[None]:
    """Few servers may be connected to."""
    conf = ["ctl", "--data-dir", str(managed.data_dir), "conf", "set"]
    with redirect_stdout(io.StringIO()):
        assert main([*conf, 'outbound.allowed_hosts=["*.plant.example", "kafka", "lake"]']) == 0
    yield
    with redirect_stdout(io.StringIO()):
        assert main([*conf, "outbound.allowed_hosts=null"]) == 0


@pytest.mark.parametrize(
    ("settings", "host"),
    [
        ({"type": "http", "url": "http://127.0.0.1:9/x"}, "127.0.0.1"),
        ({"type": "http", "url": "http://169.254.169.254/"}, "169.254.169.254"),
        ({"type": "http", "url": "http://2130706433/"}, "2130706433"),  # 127.0.0.1 for some resolvers
        ({"type": "http", "url": "https://a.Plant.example"}, ""),
        ({"type": "http", "url": "https://plant.example"}, "plant.example"),
        ({"type": "http", "url": "https://kafka@evil.example"}, "evil.example"),
        ({"type": "kafka_producer", "bootstrap_hosts": "kafka:9092,other:9092"}, "other"),
        ({"type": "mqtt", "server": "[::1]:1883"}, "::1"),
        ({"type": "parquet", "place": "s3://lake/x"}, ""),
        ({"type": "parquet", "place": "s3://other/x"}, "other"),
        ({"type": "parquet", "place": "s3://lake/x", "storage_options": {"endpoint_override": "evil:9000"}}, "evil"),
        ({"type": "delta", "place": "s3://lake/x", "storage_options": {"AWS_ENDPOINT": "http://evil/"}}, "evil"),
    ],
)
def test_connectors_go_to_servers_that_are_allowed(
    managed: Served, operator: httpx.Client, bounded: None, settings: dict[str, Any], host: str
) -> None:
    for caller in (operator, managed.api):
        made = caller.post("/connectors", json={**settings, "name": "target"})
        if not host:
            assert made.status_code == 201, made.text
            assert caller.delete(f"/connectors/{settings['type']}:target").status_code == 204
            continue
        tried = caller.post("/connectors_probe", json={**settings, "name": "target"})
        for answer in (made, tried):
            assert answer.status_code == 400
            is_metadata = host == "169.254.169.254"
            rule = "denied by outbound.allow_link_local" if is_metadata else "not in outbound.allowed_hosts (*.plant"
            assert f"goes to '{host}', which is {rule}" in answer.json()["message"]


def test_so_do_actions_and_schemas_and_what_is_there_counts(
    managed: Served, operator: httpx.Client, bounded: None
) -> None:
    assert operator.post("/connectors", json={"type": "parquet", "name": "target", "tags": ["x"]}).status_code == 201
    parameters = {"path": "s3://other/x", "columns": {"a": "string"}}
    action = {"type": "parquet", "name": "target", "connector": "target", "parameters": parameters}
    schema = {"name": "far", "type": "external_http", "parameters": {"url": "http://other/x"}}
    registry = {"name": "far", "type": "confluent", "url": "http://other/x"}
    for path, body in (
        ("/actions", action),
        ("/actions_probe", action),
        ("/schema_registry", schema),
        ("/schema_registry_external", registry),
    ):
        answer = operator.post(path, json=body)
        assert (answer.status_code, "goes to 'other'" in answer.text) == (400, True), answer.text
    assert operator.delete("/connectors/parquet:target").status_code == 204
    there = {"type": "http", "name": "target", "url": "https://a.plant.example"}
    assert operator.post("/connectors", json=there).status_code == 201
    text = {"values": {"outbound.allowed_hosts": "[kafka]"}}
    answer = managed.api.post("/heliograph/configuration/plan", json=text)
    assert (answer.status_code, "connectors.http.target.url: goes to 'a.plant.example'" in answer.text) == (400, True)
    assert operator.delete("/connectors/http:target").status_code == 204
