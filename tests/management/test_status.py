"""What load balancers and probes ask, and how the API answers what is not there."""

import re
from pathlib import Path

import pytest

from heliograph.cli.main import main
from heliograph.config.loading import load_config
from heliograph.node import Node
from support.management import Served
from support.waiting import wait_until


def test_a_probe_sees_that_the_node_runs(managed: Served) -> None:
    with managed.client() as stranger:
        assert stranger.get("/status").text == "Node heliograph@127.0.0.1 is started\nemqx is running"
        head = stranger.head("/status")
        assert (head.status_code, head.content, stranger.get(f"{managed.url}/status").status_code) == (200, b"", 200)
        told = stranger.get("/status", params={"format": "json"}).json()
    assert told["node_name"] == "heliograph@127.0.0.1"
    assert (told["broker_status"], told["app_status"]) == ("started", "running")


def test_ctl_names_the_address_of_the_dashboard(
    managed: Served, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["ctl", "status", "--ready", "--data-dir", str(managed.data_dir)]) == 0
    assert f"  dashboard {managed.url}" in capsys.readouterr().out.splitlines()
    file = tmp_path / "node.conf"
    file.write_text('management.enable = true\ndashboard.listeners.http.bind = "0.0.0.0:8080"')
    node = Node(load_config(file, {}, {"node.data_dir": str(tmp_path / "data")}))
    assert node.dashboard_line() == "; the dashboard comes at http://0.0.0.0:8080"


def test_nodes_are_shown_to_callers_with_a_key(managed: Served) -> None:
    (node,) = managed.api.get("/nodes").json()
    assert node["node_status"] == "running"
    assert sorted(node) == [
        *("cluster_sessions", "connections", "edition", "live_connections", "load1", "load15", "load5", "log_path"),
        *("max_fds", "memory_total", "memory_used", "node", "node_status", "otp_release", "process_available"),
        *("process_used", "role", "sys_path", "uptime", "version"),
    ]
    assert 0 < node["process_used"] < node["max_fds"]
    assert re.fullmatch(r"\d+\.\d\d[KMG]", node["memory_total"])
    assert managed.api.get(f"/nodes/{node['node']}").json()["version"] == node["version"]
    missing = managed.api.get("/nodes/nobody@here")
    assert (missing.status_code, missing.json()["code"]) == (404, "NOT_FOUND")


@pytest.mark.parametrize(
    ("auth", "code"), [(None, "AUTHORIZATION_HEADER_ERROR"), (("first-key", "wrong"), "BAD_API_KEY_OR_SECRET")]
)
def test_strangers_are_refused(managed: Served, auth: tuple[str, str] | None, code: str) -> None:
    with managed.client(auth) as stranger:
        answer = stranger.get("/nodes")
    assert (answer.status_code, answer.json()["code"]) == (401, code)
    assert answer.headers["www-authenticate"] == 'Basic Realm="emqx-dashboard"'


def test_what_is_not_there(managed: Served) -> None:
    missing = managed.api.get("/no/such/path", headers={"accept": "application/json"})
    assert missing.status_code == 404
    assert missing.json() == {"code": "NOT_FOUND", "message": "Request Path Not Found"}
    wrong = managed.api.delete("/nodes")
    assert (wrong.status_code, wrong.headers["allow"]) == (405, "GET")
    page = managed.api.get("/clients", params={"limit": 10_001})
    assert (page.status_code, page.json()["code"]) == (400, "BAD_REQUEST")


def test_a_page_of_clients(managed: Served) -> None:
    none = {"data": [], "meta": {"page": 1, "limit": 100, "hasnext": False, "count": 0}}
    wait_until(lambda: managed.api.get("/clients").json() == none, "the clients of tests before have left")
