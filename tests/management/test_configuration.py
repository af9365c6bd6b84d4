"""Plans, trials, revisions and rollback of the configuration through the API, and why a client may do something."""

from typing import Any

from support.management import Served

BASE = "/heliograph/configuration"


def refused(answer: Any) -> tuple[int, str]:
    return answer.status_code, answer.json()["code"]


def inflight(managed: Served) -> dict[str, Any]:
    (row,) = managed.api.get(BASE, params={"path": "mqtt.max_inflight"}).json()
    return dict(row)


def test_the_schema_is_sent_once_to_who_keeps_it(managed: Served) -> None:
    first = managed.api.get("/schemas/hotconf")
    assert first.headers["content-encoding"] == "gzip"
    assert "mqtt" in first.json()["properties"]
    plain = managed.api.get("/schemas/hotconf", headers={"accept-encoding": "identity"})
    assert ("content-encoding" not in plain.headers, plain.json()) == (True, first.json())
    again = managed.api.get("/schemas/hotconf", headers={"if-none-match": first.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")


def test_a_change_is_planned_tried_confirmed_and_taken_back(managed: Served) -> None:
    api, change = managed.api, {"values": {"mqtt.max_inflight": "64"}, "comment": "more"}
    before = inflight(managed)
    assert (before["value"], before["origin"]) == ("32", "defaults")
    plan = api.post(f"{BASE}/plan", json=change).json()
    assert plan["settings"] == [
        {"path": "mqtt.max_inflight", "old": "32", "new": "64", "how": before["how"], "shadowed_by": None}
    ]
    assert inflight(managed)["value"] == "32"
    trial = api.post(f"{BASE}/change", json={**change, "confirm_s": 600}).json()
    assert trial["confirm_until"]
    assert (inflight(managed)["value"], inflight(managed)["plain"]) == ("64", 64)
    state = api.get(f"{BASE}/state").json()
    assert state == {"revision": trial["revision"], "confirm_until": trial["confirm_until"], "restart": []}
    assert refused(api.post(f"{BASE}/change", json=change)) == (409, "CONFLICT")
    assert api.post(f"{BASE}/confirm").json() == {"revision": trial["revision"]}
    assert api.get(f"{BASE}/state").json()["confirm_until"] is None
    assert refused(api.post(f"{BASE}/confirm")) == (409, "CONFLICT")
    newest = api.get(f"{BASE}/revisions").json()[0]
    assert (newest["number"], newest["comment"]) == (trial["revision"], "more")
    assert newest["who"]
    shown = api.get(f"{BASE}/revisions/{newest['number']}").json()
    assert "max_inflight = 64" in shown["text"]
    plan = api.post(f"{BASE}/rollback/plan", json={"number": newest["number"] - 1}).json()
    assert [(one["path"], one["old"], one["new"]) for one in plan["settings"]] == [("mqtt.max_inflight", "64", "32")]
    assert inflight(managed)["value"] == "64"
    again = api.post(f"{BASE}/change", json=change).json()
    assert (again["is_new"], again["revision"]) == (False, newest["number"])
    back = api.post(f"{BASE}/rollback", json={"number": newest["number"] - 1}).json()
    assert inflight(managed)["value"] == "32"
    (difference,) = api.get(f"{BASE}/diff", params={"old": newest["number"], "new": back["revision"]}).json()
    assert difference == {"path": "mqtt.max_inflight", "old": "64", "new": None}


def test_a_zone_shows_what_it_inherits_and_keeps_to_its_own(managed: Served) -> None:
    api = managed.api
    assert api.post(f"{BASE}/change", json={"values": {"zones.z.mqtt.max_inflight": "7"}}).status_code == 200
    rows = {row["path"]: row for row in api.get(BASE, params={"path": "zones.z.mqtt"}).json()}
    kept = rows["zones.z.mqtt.mqueue_store_qos0"]
    assert (kept["plain"], kept["inherited_from"], kept["origin"]) == (True, "mqtt.mqueue_store_qos0", "defaults")
    assert (rows["zones.z.mqtt.max_inflight"]["plain"], rows["zones.z.mqtt.max_inflight"]["inherited_from"]) == (
        7,
        None,
    )
    # What is read there may be written back, and becomes nothing of its own.
    assert api.get("/configs", params={"key": "zones"}).text == "zones.z.mqtt.max_inflight = 7\n"
    assert api.post(f"{BASE}/change", json={"values": {"zones.z": "null"}}).status_code == 200


def test_what_cannot_be_changed_says_why(managed: Served) -> None:
    api = managed.api
    for body in (
        {},
        {"values": {"mqtt.max_inflight": "many"}},
        {"values": {"mqtt.nothing": "1"}},
        {"text": "mqtt {"},
        {"text": "", "mode": "turn"},
        {"values": {"mqtt.max_inflight": "1"}, "unknown": 1},
    ):
        assert refused(api.post(f"{BASE}/change", json=body)) == (400, "BAD_REQUEST")
    stale = {"values": {"mqtt.max_inflight": "33"}, "revision": 1_000_000}
    assert refused(api.post(f"{BASE}/change", json=stale)) == (409, "CONFLICT")
    assert refused(api.get(BASE, params={"path": "mqtt.nothing"})) == (404, "NOT_FOUND")
    assert refused(api.get(f"{BASE}/revisions/1000000")) == (404, "NOT_FOUND")
    assert refused(api.get(f"{BASE}/diff", params={"old": 1_000_000, "new": 1})) == (404, "NOT_FOUND")
    for where in ("rollback", "rollback/plan"):
        assert refused(api.post(f"{BASE}/{where}", json={"number": 1_000_000})) == (404, "NOT_FOUND")


def test_access_is_explained(managed: Served) -> None:
    query = {"clientid": "c", "action": "publish", "topic": "a/b", "peerhost": "192.0.2.7"}
    told = managed.api.get("/heliograph/authorization/explain", params=query).json()
    assert told["is_allowed"] is True
    assert told["is_connected"] is False
    assert told["steps"]
    absent = {name: query[name] for name in ("clientid", "action", "topic")}
    assert refused(managed.api.get("/heliograph/authorization/explain", params=absent)) == (404, "NOT_FOUND")
    wrong = managed.api.get("/heliograph/authorization/explain", params={**query, "topic": "a/#"})
    assert refused(wrong) == (400, "BAD_REQUEST")


def test_a_node_without_a_pipeline_says_so(managed: Served) -> None:
    told = managed.api.get("/heliograph/pipeline").json()
    assert (told["enable"], told["is_running"], told["queries"]) == (False, False, [])
    for path in ("dead_letters/obs/replay", "plan"):
        assert refused(managed.api.post(f"/heliograph/pipeline/{path}")) == (404, "NOT_FOUND")
    for path in ("", "/obs", "/http:web"):  # an action without Spark may have some
        assert managed.api.get(f"/heliograph/pipeline/dead_letters{path}").json() == []
