"""Alarms through the API: they begin with a threshold, are listed, ended and forgotten."""

from datetime import datetime
from typing import Any

from heliograph.cli.main import main
from support.management import Served
from support.waiting import wait_until

NAME = "high_system_memory_usage"


def named(managed: Served, *, activated: bool) -> list[dict[str, Any]]:
    answer = managed.api.get("/alarms", params={"activated": str(activated).lower(), "limit": 1000})
    assert answer.status_code == 200
    assert answer.json()["meta"]["count"] == len(answer.json()["data"])
    return [alarm for alarm in answer.json()["data"] if alarm["name"] == NAME]


def has_thresholds(managed: Served, high: str, interval: str = "1s") -> None:
    """Have the memory looked at once with the next tick, and then again and again."""
    settings = managed.api.get("/configs/sysmon").json()
    settings["os"] |= {"mem_check_interval": interval, "sysmem_high_watermark": high, "procmem_high_watermark": "100%"}
    assert managed.api.put("/configs/sysmon", json=settings).status_code == 200


def test_an_alarm_is_listed_while_it_goes_on_and_after_its_end(managed: Served) -> None:
    api = managed.api
    has_thresholds(managed, "1%")
    wait_until(lambda: named(managed, activated=True), "the alarm begins")
    (alarm,) = named(managed, activated=True)
    assert set(alarm) == {"node", "name", "message", "details", "duration", "activate_at", "severity"}
    assert alarm["severity"] == "warning"
    assert alarm["node"] == "heliograph@127.0.0.1"
    assert alarm["details"]["high_watermark"] == 1
    assert alarm["duration"] >= 0
    assert datetime.fromisoformat(alarm["activate_at"]).tzinfo is not None
    has_thresholds(managed, "100%")
    wait_until(lambda: named(managed, activated=False), "the alarm ends")
    assert named(managed, activated=True) == []
    (ended,) = named(managed, activated=False)
    assert ended["activate_at"] == alarm["activate_at"] < ended["deactivate_at"]
    assert api.get("/alarms", params={"activated": "false", "page": 1, "limit": 1}).json()["meta"]["limit"] == 1
    assert api.delete("/alarms").status_code == 204
    assert named(managed, activated=False) == []


def test_an_alarm_is_ended_by_hand(managed: Served) -> None:
    api = managed.api
    has_thresholds(managed, "1%")
    wait_until(lambda: named(managed, activated=True), "the alarm begins")
    has_thresholds(managed, "100%", "1h")
    wait_until(lambda: not named(managed, activated=True), "the last look for an hour has ended it")
    has_thresholds(managed, "1%", "1h")
    wait_until(lambda: named(managed, activated=True), "the last look for an hour has found it")
    assert api.post("/alarms/force_deactivate", json={"name": NAME}).status_code == 204
    assert named(managed, activated=True) == []
    again = api.post("/alarms/force_deactivate", json={"name": NAME})
    assert (again.status_code, again.json()["code"]) == (400, "NOT_FOUND")
    assert NAME in again.json()["message"]
    for body in ({}, {"name": ""}, {"name": NAME, "more": 1}, {"name": 7}):
        answer = api.post("/alarms/force_deactivate", json=body)
        assert (answer.status_code, answer.json()["code"]) == (400, "BAD_REQUEST")
    assert api.get("/alarms", params={"activated": "perhaps"}).json()["code"] == "BAD_REQUEST"
    assert api.get("/alarms", params={"limit": 0}).status_code == 400


def ctl(managed: Served, *words: str) -> None:
    assert main(["ctl", *words, "--data-dir", str(managed.data_dir)]) == 0


def overload(managed: Served) -> dict[str, Any]:
    alarms = {alarm["name"]: alarm for alarm in managed.api.get("/alarms").json()["data"]}
    details: dict[str, Any] = alarms["runq_overload"]["details"]
    return details


def test_an_overloaded_node_lists_its_alarms_and_refuses_what_can_wait(managed: Served) -> None:
    api = managed.api
    ctl(managed, "olp", "enable")
    limits = ("check_interval=500ms", "memory=1%", "mean_loop_turn=disabled", "longest_loop_turn=disabled")
    ctl(managed, "conf", "set", "node.memory_limit=1GB", *(f"sysmon.overload.{limit}" for limit in limits))
    wait_until(lambda: "the node is overloaded (memory" in api.get("/clients").text, "requests are shed")
    shed = api.get("/clients")
    assert (shed.status_code, shed.json()["code"]) == (503, "SERVICE_UNAVAILABLE")
    wait_until(lambda: overload(managed)["shed"]["overload_protection.requests"], "the alarm says what was shed")
    assert overload(managed)["causes"] == ["memory"]
    assert api.get("/status").status_code == 200
    ctl(managed, "olp", "disable")
    assert api.get("/clients").status_code == 200
    ctl(managed, "conf", "set", "sysmon.overload=null", "node.memory_limit=null")
