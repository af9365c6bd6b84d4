"""Pictures of every page of the dashboard, for docs/dashboard.md: `make screenshots`.

A node is started with clients, rules, a pipeline and what else pages show; Debian's Chromium opens each page that
`pages/map.js` lists, at 1,280 pixels in light colours. A page that no menu has is opened at what the scene has for it.
"""

import argparse
import io
import json
import os
import re
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "examples" / "weather"))

from observations import Observation, read_weather, to_messages
from PIL import Image
from playwright.sync_api import Page
from stations import Station

from heliograph.management.dashboard.page import ROOT
from support.browser import SETTINGS, Dashboard, chromium
from support.managed_clients import Peers
from support.management import ManagedNode
from support.waiting import wait_until

CHECKOUT: Final = Path(__file__).resolve().parents[1]
OUTPUT: Final = CHECKOUT / "docs" / "images" / "dashboard"
DOCUMENT: Final = CHECKOUT / "docs" / "dashboard.md"
_WIDTH: Final = 1280
_COLOURS: Final = 48
_SETTLED_MS: Final = 1500
_PACE_S: Final = 0.2
_SCENE: Final = """
listeners.tcp.default.enable_authn = false
durable_storage.messages.topics = ["weather/#"]
diagnose.messages {{ enable = true, topics = ["weather/#"] }}
dashboard.sample_interval = 1
actions.engine = auto
slow_subs {{ enable = true, threshold = 1ms }}
rule_engine.rules.strong_wind {{
  description = "Tell the tower about strong wind"
  sql = \"\"\"SELECT payload.origin AS station, payload.wind_speed AS mph FROM "weather/+/obs"
             WHERE is_num(payload.wind_speed) AND payload.wind_speed >= 15\"\"\"
  actions = [{{ function = republish, args {{ topic = "alerts/strong/${{station}}", payload = "${{mph}}", qos = 1 }} }}]
}}
rule_engine.rules.to_warehouse {{ sql = \"\"\"SELECT * FROM "alerts/#" \"\"\", actions = ["http:tell_warehouse"] }}
pipeline {{ enable = {pipeline}, file = "examples/weather/rules", trigger = 1s }}
"""
_SCHEMA: Final = '{"type": "object", "required": ["temp"], "properties": {"temp": {"type": ["number", "null"]}}}'
_JSON: Final = {"content-type": "application/json"}
# What is made over the API, in this order; PORT is the node's own.
_MADE: Final[list[tuple[str, dict[str, Any]]]] = [
    ("/connectors", {"type": "http", "name": "warehouse", "url": "http://127.0.0.1:9"}),
    (
        "/actions",
        {
            "type": "http",
            "name": "tell_warehouse",
            "connector": "warehouse",
            "parameters": {"path": "/alerts", "body": "${.}"},
        },
    ),
    ("/connectors", {"type": "mqtt", "name": "plant", "server": "127.0.0.1:PORT"}),
    ("/sources", {"type": "mqtt", "name": "strong", "connector": "plant", "parameters": {"topic": "alerts/#"}}),
    (
        "/rules",
        {"id": "from_plant", "sql": 'SELECT * FROM "$sources/mqtt:strong"', "actions": [{"function": "console"}]},
    ),
    ("/schema_registry", {"name": "observation", "type": "json", "source": _SCHEMA}),
    (
        "/schema_validations",
        {
            "name": "is_observation",
            "topics": ["weather/+/obs"],
            "checks": [{"type": "json", "schema": "observation"}],
            "failure_action": "drop",
        },
    ),
    (
        "/message_transformations",
        {
            "name": "add_source",
            "topics": ["weather/+/obs"],
            "operations": [{"key": "user_property.source", "value": "clientid"}],
        },
    ),
    ("/banned", {"as": "clientid", "who": "meter-99", "reason": "publishes nonsense"}),
    ("/trace", {"name": "jfk", "type": "clientid", "clientid": "station-JFK"}),
    ("/mqtt/topic_metrics", {"topic": "weather/JFK/obs"}),
    (
        "/authentication",
        {"mechanism": "password_based", "backend": "built_in_database", "user_id_type": "username"},
    ),
    (
        "/authentication/password_based:built_in_database/users",
        {"user_id": "ann", "password": "secret-of-ann-1"},
    ),
]
#: Where pages are opened that no menu has, or that show more elsewhere.
_ADDRESSES: Final = {
    "node": "node",
    "rule": "rule/strong_wind",
    "connector": "connector/http:warehouse",
    "action": "action/http:tell_warehouse",
    "source": "source/mqtt:strong",
    "schema": "schema/observation",
    "schema_validation": "schema_validation/is_observation",
    "message_transformation": "message_transformation/add_source",
    "api": "api?search=banned",
    "explain": "explain?clientid=meter-1&username=ann&action=publish&topic=weather/JFK/obs",
    "configuration": "configuration/mqtt",
    "time_machine": "time_machine?rule=strong_wind",
    "client": "clients/tower",  # a page of the page of clients
}


def main() -> int:
    """Take the pictures; 1 if a page has none in the document."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pages", nargs="*", help="as clients; all without")
    parser.add_argument("--output", type=Path, default=OUTPUT, help="where they go (%(default)s)")
    parser.add_argument("--without-pipeline", action="store_true", help="spare the memory that Spark takes")
    args = parser.parse_args()
    listed = re.findall(r'\{ path: "(\w+)", title: (""|\w)', (ROOT / "pages" / "map.js").read_text())
    if unknown := [path for path, title in listed if title == '""' and path not in _ADDRESSES]:
        sys.exit(f"the scene has no address for {', '.join(unknown)}: name one in {__file__}")
    names = args.pages or [*(path for path, _ in listed), "client"]
    args.output.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, scene(Path(folder), not args.without_pipeline) as (node, peers):
        take(node, peers, names, args.output)
    return told([path for path, _ in listed])


def told(names: list[str]) -> int:
    """Say which pages the document does not show; the exit code."""
    document = DOCUMENT.read_text()
    missing = [name for name in names if f"images/dashboard/{name}.png" not in document]
    if missing:
        print(f"{DOCUMENT} does not show: {', '.join(missing)}", file=sys.stderr)
    return 1 if missing else 0


@contextmanager
def scene(folder: Path, has_pipeline: bool) -> Iterator[tuple[ManagedNode, Peers]]:
    """The node with all that pages show."""
    os.chdir(CHECKOUT)  # the pipeline's file is named from here
    settings = SETTINGS + _SCENE.format(pipeline=str(has_pipeline).lower())
    stop = threading.Event()
    with ManagedNode(folder, settings) as node, Peers(node) as peers:
        _connect(peers)
        messages = to_messages(read_weather())
        stations = {name: Station(name, "127.0.0.1", node.node.port) for name in ("EWR", "JFK", "LGA")}
        publishing = threading.Thread(target=_publish, args=(stations, messages, stop))
        publishing.start()
        try:
            for path, body in _MADE:
                text = json.dumps(body).replace("PORT", str(node.node.port))
                if not (answer := node.api.post(path, content=text, headers=_JSON)).is_success:
                    sys.exit(f"{path}: {answer.status_code} {answer.text}")
            if has_pipeline:
                wait_until(lambda: _is_processing(node), "the pipeline runs", deadline_s=180)
            yield node, peers
        finally:
            stop.set()
            publishing.join()


def _connect(peers: Peers) -> None:
    for number in range(1, 13):
        meter = peers.connect(f"meter-{number}", username="ann", expiry_s=3600, version=5 if number % 3 else 4)
        meter.subscribe(f"commands/meter-{number}/#", 1)
        meter.publish(f"meters/{number}/power", f'{{"watts": {number * 37}}}'.encode(), 1, retain=True)
    tower = peers.connect("tower", username="tower")
    tower.subscribe("alerts/#", 1)
    tower.subscribe("$share/board/weather/+/obs", 0)
    tower.publish("$delayed/3600/commands/meter-1/restart", b"now", 1)
    slow = peers.connect("slow-reader", username="ann", expiry_s=3600, receive_maximum=1, acknowledges=False)
    slow.subscribe("weather/#", 1)


def _publish(stations: dict[str, Station], messages: list[Observation], stop: threading.Event) -> None:
    for observation in messages:
        if stop.wait(_PACE_S / len(stations)):
            break
        stations[observation.station].publish(observation)
    for station in stations.values():
        station.finish()


def _is_processing(node: ManagedNode) -> bool:
    queries = node.api.get("/heliograph/pipeline").json()["queries"]
    return any(query["figures"].get("rows_read", 0) > 0 for query in queries)


def take(node: ManagedNode, peers: Peers, names: list[str], output: Path) -> None:
    """Open each page and keep its picture; the overview last, when its charts have something."""
    with chromium() as browser:
        dashboard = Dashboard(browser, node, "light", _WIDTH).log_in()
        for name in sorted(names, key=lambda one: one == "overview"):
            dashboard.open(_address(node, name))
            page = dashboard.page
            page.mouse.move(0, 0)  # no row is marked by it
            page.get_by_role("heading", level=1).wait_for()
            page.get_by_text("Loading …").first.wait_for(state="detached")
            _DONE.get(name, _nothing)(page)
            page.wait_for_timeout(_SETTLED_MS)
            keep(page.screenshot(), output / f"{name}.png")
        dashboard.close()


def _address(node: ManagedNode, name: str) -> str:
    if name == "message_way":
        rows = node.api.get("/heliograph/message_ways", params={"topic": "weather/#", "limit": 1}).json()["data"]
        return f"message_way/{rows[0]['id']}"
    return _ADDRESSES.get(name, name)


def _nothing(page: Page) -> None:
    """Look only."""


def _speak_mqtt(page: Page) -> None:
    page.get_by_label("Client id").fill("ann-in-the-page")
    page.get_by_label("User name").fill("ann")
    page.get_by_label("Password").fill("secret-of-ann-1")
    page.get_by_role("button", name="Connect", exact=True).click()
    page.get_by_text("Connected as").wait_for()
    page.get_by_label("Topic filter").fill("weather/+/obs")
    page.get_by_role("button", name="Subscribe", exact=True).click()
    page.get_by_role("region", name="Messages").get_by_role("listitem").nth(2).wait_for()


def _open_first(page: Page) -> None:
    page.get_by_text("/banned", exact=True).first.click()


def _run_rule(page: Page) -> None:
    page.get_by_role("button", name="Run it", exact=True).click()
    page.get_by_role("button", name="Run it", exact=True, disabled=False).wait_for()


def _open_weather(page: Page) -> None:
    weather = page.get_by_role("treeitem").filter(has_text="weather").first
    weather.click()
    weather.press("ArrowRight")


def _press(name: str) -> Callable[[Page], None]:
    return lambda page: page.get_by_role("button", name=name, exact=True).click()


# What a user does on a page before it shows something.
_DONE: Final[dict[str, Callable[[Page], None]]] = {
    "mqtt_client": _speak_mqtt,
    "api": _open_first,
    "explain": _press("Ask"),
    "time_machine": _run_rule,
    "topics": _open_weather,
}


def keep(picture: bytes, path: Path) -> None:
    """Write it with few colours, which makes it small."""
    with Image.open(io.BytesIO(picture)) as image:
        image.convert("RGB").quantize(_COLOURS, dither=Image.Dither.NONE).save(path, optimize=True)
    print(f"{path.name}: {path.stat().st_size / 1024:.0f} KiB", flush=True)


if __name__ == "__main__":
    sys.exit(main())
