"""The configuration and the listeners through the HTTP API, with effects seen over MQTT."""

import socket
from collections.abc import Iterator

import pytest

from support.management import Served
from support.mosquitto import free_port


@pytest.fixture(autouse=True)
def _as_before(managed: Served) -> Iterator[None]:
    yield
    for root in ("mqtt", "sys_topics", "listeners"):
        managed.api.put("/configs", content=f"{root} = null", headers={"content-type": "text/plain"})


def test_the_whole_configuration_as_text(managed: Served) -> None:
    answer = managed.api.get("/configs", headers={"accept": "text/plain"})
    assert answer.headers["content-type"].startswith("text/plain")
    assert 'node.name = "heliograph@127.0.0.1"' in answer.text
    assert managed.api.get("/configs", params={"key": "mqtt"}).text.startswith("mqtt.")
    assert managed.api.get("/configs", params={"key": "mqtz"}).status_code == 404
    assert managed.api.get("/configs", headers={"accept": "image/png"}).json()["code"] == "INVALID_ACCEPT"


def test_what_was_read_can_be_written_back(managed: Served) -> None:
    text = managed.api.get("/configs", headers={"accept": "text/plain"}).text
    assert managed.api.put("/configs", content=text).status_code == 400  # it has roots that cannot be changed
    answer = managed.api.put("/configs", params={"ignore_readonly": "true"}, content=text)
    assert (answer.status_code, answer.text) == (200, "")


def test_a_text_changes_settings(managed: Served) -> None:
    assert managed.api.put("/configs", content="mqtt.max_qos_allowed = 1").status_code == 200
    assert managed.api.get("/configs/global_zone").json()["mqtt"]["max_qos_allowed"] == 1
    refused = managed.api.put("/configs", content="mqtt.max_qos_allowed = 7")
    assert refused.status_code == 400
    assert "max_qos_allowed" in refused.json()["errors"]["configuration"]
    assert "node" in managed.api.put("/configs", content="node.name = x").json()["errors"]


def test_a_root_is_replaced_and_reset(managed: Served) -> None:
    before = managed.api.get("/configs/sys_topics").json()
    assert before["sys_msg_interval"] == "1m"
    after = managed.api.put("/configs/sys_topics", json={"sys_msg_interval": "2m"})
    assert after.json()["sys_msg_interval"] == "2m"
    path = {"conf_path": "sys_topics.sys_msg_interval"}
    assert managed.api.post("/configs_reset/sys_topics", params=path).status_code == 200
    assert managed.api.get("/configs/sys_topics").json() == before
    nothing = managed.api.post("/configs_reset/sys_topics", params={"conf_path": "no_such"})
    assert (nothing.status_code, nothing.json()["code"]) == (400, "NO_DEFAULT_VALUE")
    assert managed.api.get("/configs/authentication").status_code == 404


def test_a_zone_takes_what_differs(managed: Served) -> None:
    zone = managed.api.get("/configs/global_zone").json()
    zone["mqtt"]["max_inflight"] = 17
    assert managed.api.put("/configs/global_zone", json=zone).json()["mqtt"]["max_inflight"] == 17
    wrong = managed.api.put("/configs/global_zone", json={"mqtt": {"max_inflight": "many"}})
    assert (wrong.status_code, wrong.json()["code"]) == (400, "UPDATE_FAILED")


def _accepts(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), 5).close()
    except OSError:
        return False
    return True


def test_a_listener_comes_changes_and_goes(managed: Served) -> None:
    port = free_port()
    made = managed.api.post(
        "/listeners", json={"type": "tcp", "name": "new", "bind": f"127.0.0.1:{port}", "acceptors": 8}
    )
    assert (made.status_code, made.json()["id"]) == (200, "tcp:new")
    assert _accepts(port)
    again = managed.api.post("/listeners", json={"type": "tcp", "name": "new", "bind": f"127.0.0.1:{port}"})
    assert (again.status_code, again.json()["code"]) == (400, "BAD_LISTENER_ID")
    changed = managed.api.put("/listeners/tcp:new", json={"id": "tcp:new", "type": "tcp", "max_connections": 5})
    assert changed.json()["max_connections"] == 5
    assert managed.api.post("/listeners/tcp%3Anew/stop").status_code == 200
    assert not _accepts(port)
    (row,) = [one for one in managed.api.get("/listeners").json() if one["id"] == "tcp:new"]
    assert (row["enable"], row["status"]["running"]) == (False, False)
    assert managed.api.post("/listeners/tcp:new/start").status_code == 200
    assert _accepts(port)
    assert managed.api.post("/listeners/tcp:new/restart").status_code == 200
    assert managed.api.delete("/listeners/tcp:new").status_code == 204
    assert managed.api.get("/listeners/tcp:new").json()["code"] == "BAD_LISTENER_ID"
    assert not _accepts(port)


def test_how_the_kinds_of_listeners_are(managed: Served) -> None:
    (tcp,) = managed.api.get("/listeners_status").json()
    assert (tcp["type"], tcp["ids"], tcp["status"]["running"]) == ("tcp", ["tcp:default"], True)
    assert managed.api.get("/listeners", params={"type": "ws"}).json() == []


@pytest.mark.parametrize(
    ("path", "body", "status", "code"),
    [
        ("/listeners", {"type": "tcp", "name": "x"}, 400, "BAD_REQUEST"),
        ("/listeners", {"type": "quic", "name": "x", "bind": 1}, 400, "BAD_LISTENER_ID"),
        ("/listeners", {"name": "x", "bind": 1}, 400, "BAD_REQUEST"),
        ("/listeners", {"type": "tcp", "name": "x", "bind": "nowhere:x"}, 400, "BAD_REQUEST"),
        ("/listeners/tcp:none/stop", {}, 404, "BAD_LISTENER_ID"),
    ],
)
def test_listeners_that_are_refused(
    managed: Served, path: str, body: dict[str, object], status: int, code: str
) -> None:
    answer = managed.api.post(path, json=body)
    assert (answer.status_code, answer.json()["code"]) == (status, code)
