"""Asks every route that reads, of what there is and of what there is not, with pages, filters and orders."""

import itertools
from collections.abc import Iterator
from typing import Any, Final
from urllib.parse import quote

import httpx
from scripts.answers.recorded_node import KEYS, SECRET, RecordedNode
from scripts.answers.recorder import Recorder
from scripts.answers.scene import NODE

MISSING: Final = "none-such"
#: Values of parameters in paths; those of a path itself come before those of a name.
_IDS: Final[dict[str, list[str]]] = {
    "node": [NODE],
    "clientid": ["meter-1", "away", "slow"],
    "username": ["ann"],
    "name": ["one"],
    "/api_key/{name}": ["tool"],
    "/schema_registry/{name}": ["observation", "text"],
    "/heliograph/schemas/{name}/check": ["text"],
    "/schema_registry_external/registry/{name}": ["far"],
    "/schema_validations/validation/{name}": ["is_observation", "second"],
    "/schema_validations/validation/{name}/metrics": ["is_observation"],
    "/message_transformations/transformation/{name}": ["add_source", "second"],
    "/message_transformations/transformation/{name}/metrics": ["add_source"],
    "/gateways/{name}": ["stomp"],
    "/gateways/{name}/clients": ["stomp"],
    "/gateways/{name}/listeners": ["stomp"],
    "/schemas/{name}": ["hotconf", "connectors", "actions", "bridges"],
    "/actions/{id}": ["http:tell", "tell", "http:none-such"],
    "/actions/{id}/metrics": ["http:tell"],
    "/bridges/{id}": ["http:tell"],
    "/bridges/{id}/metrics": ["http:tell"],
    "/connectors/{id}": ["http:web"],
    "/rules/{id}": ["copy", "tells", "rests"],
    "/rules/{id}/metrics": ["copy"],
    "/listeners/{id}": ["tcp:default", "ws:page", "tcp:none-such"],
    "/authentication/{id}": ["password_based:built_in_database", "password_based:redis", "jwt"],
    "/authentication/{id}/status": ["password_based:built_in_database", "password_based:redis"],
    "/authentication/{id}/users": ["password_based:built_in_database", "jwt"],
    "/authentication/{id}/users/{user_id}": ["password_based:built_in_database"],
    "user_id": ["ann"],
    "/authorization/sources/{type}": ["built_in_database", "file", "http"],
    "/authorization/sources/{type}/status": ["built_in_database", "file", "http"],
    "/opentelemetry/whitelist/{type}": ["clientid", "topic"],
    "/mqtt/retainer/message/{topic}": ["state/1"],
    "/mqtt/topic_metrics/{topic}": ["kept/a"],
    "/topics/{topic}": ["out/#"],
    "code": ["NOT_FOUND"],
    "number": ["1"],
    "database": ["messages"],
    "ds": ["messages"],
    "site": [NODE],
    "root": [],  # those that `/configs` names
    "rule": ["copy"],
    "query": ["copy"],
    "fileid": ["x"],
}
#: Values of parameters in queries, one call each.
_QUERIES: Final[dict[str, list[str]]] = {
    "page": ["2", "0", "x"],
    "limit": ["2", "0", "100000"],
    "cursor": ["wrong"],
    "position": ["wrong"],
    "sort": ["clientid", "-clientid", "wrong"],
    "fields": ["clientid,username", "all", "wrong"],
    "node": [NODE, MISSING],
    "clientid": ["meter-1", MISSING],
    "username": ["ann", MISSING],
    "peerhost": ["127.0.0.1"],
    "ip_address": ["127.0.0.1", "wrong"],
    "conn_state": ["connected", "disconnected", "wrong"],
    "clean_start": ["true", "false"],
    "proto_ver": ["4", "5"],
    "like_clientid": ["meter", "METER"],
    "like_username": ["an"],
    "like_user_id": ["an"],
    "like_peerhost": ["10"],
    "like_peerhost_net": ["10.1"],
    "like_id": ["e"],
    "like_from": ["alerts"],
    "like_description": ["hot"],
    "match_from": ["kept/a", "alerts/1"],
    "is_superuser": ["true", "false"],
    "gte_created_at": ["2020-01-01T00:00:00Z", "2035-01-01T00:00:00Z", "wrong"],
    "lte_created_at": ["2035-01-01T00:00:00Z", "1577836800000"],
    "gte_connected_at": ["2020-01-01T00:00:00Z"],
    "lte_connected_at": ["2020-01-01T00:00:00Z"],
    "created_at": ["2020-01-01T00:00:00Z"],
    "listener": ["tcp:default", MISSING],
    "zone": ["default", MISSING],
    "min_backlog": ["1", "x"],
    "min_drops": ["1"],
    "activated": ["true", "false"],
    "enable": ["true", "false"],
    "from": ["kept/#"],
    "action": ["http:tell"],
    "source": ["http:tell"],
    "topic": ["out/#", "state/1", "#"],
    "match_topic": ["out/1", "weather/JFK/obs"],
    "share_group": ["board", MISSING],
    "qos": ["0", "1", "2", "3"],
    "durable": ["true", "false"],
    "payload": ["none", "plain", "base64"],
    "max_payload_bytes": ["3"],
    "aggregate": ["true", "false"],
    "latest": ["60"],
    "key": ["mqtt", "mqtt.max_packet_size", "authentication", MISSING],
    "path": ["mqtt", "mqtt.max_packet_size", "authentication", MISSING],
    "status": ["running", "unloaded", "wrong"],
    "type": ["tcp", "ws", "wrong"],
    "mode": ["node", "all_nodes_aggregated", "all_nodes_unaggregated"],
    "format": ["json"],
    "since": ["1"],
    "order": ["asc", "desc"],
    "start": ["earliest"],
    "end": ["latest"],
    "level": ["error", "wrong"],
    "after": ["0"],
    "of": ["connections"],
    "points": ["2"],
    "search": ["kept"],
    "below": ["kept"],
    "replayed": ["true"],
    "bytes": ["50"],
    "retain": ["true"],
    "operation_type": ["connectors"],
    "operation_result": ["success", "failure"],
    "operation_id": ["/connectors"],
    "request_id": [MISSING],
    "database": ["messages", MISSING],
    "payload_encode": ["hex"],
    "seconds": ["1"],
    "rate": ["1"],
    "error": ["wrong"],
    "state": ["wrong"],
    "is_not_there": [MISSING],
}
#: What a route needs in each call.
_NEEDED: Final[dict[str, dict[str, str]]] = {
    "/heliograph/authorization/explain": {"clientid": "meter-1", "action": "publish", "topic": "kept/a"},
    "/heliograph/configuration/diff": {"old": "1", "new": "2"},
    "/heliograph/subscriptions": {"receives": "out/1"},
    "/heliograph/tail": {"topic": "kept/#", "seconds": "1"},
    "/heliograph/trace/live": {"type": "clientid", "value": "meter-1", "seconds": "1"},
    "/file_transfer/file": {"node": NODE, "fileref": "x"},
    "/heliograph/message_ways": {},
}
#: Parameters that one route understands in its own way.
_OF_ROUTE: Final[dict[tuple[str, str], list[str]]] = {
    ("/audit", "source"): ["dashboard", "key-administrator"],
    ("/heliograph/topic_tree", "source"): ["live", "retained", "stored", "wrong"],
    ("/heliograph/live", "of"): ["overview", "wrong"],
    ("/heliograph/history", "of"): ["connections", "wrong"],
    ("/heliograph/messages", "start"): ["earliest", "2020-01-01T00:00:00Z", "wrong"],
    ("/heliograph/authorization/explain", "action"): ["subscribe", "wrong"],
    ("/heliograph/authorization/explain", "topic"): ["no/1", "$SYS/#"],
    ("/heliograph/clients", "sort"): ["clientid", "-mqueue_len", "wrong"],
    ("/mqtt/retainer/messages", "topic"): ["state/+", "none-such"],
    ("/prometheus/stats", "mode"): ["node", "wrong"],
}


def read_all(recorder: Recorder, node: RecordedNode, document: dict[str, Any], ids: dict[str, list[str]]) -> None:
    """Ask all of them.

    Args:
        ids: More values of parameters in paths: ids of this run, and roots of the configuration.
    """
    known = {**_IDS, **ids}
    for template, methods in sorted(document["paths"].items()):
        if "get" not in methods:
            continue
        path = methods["get"]
        named = [each for each in path.get("parameters", ()) if each["in"] == "query"]
        needed = _NEEDED.get(template, {})
        for place, query in _questions(template, [each["name"] for each in named], known, needed):
            _ask(recorder, node.api, template, place, query)
        for each in named:
            if each.get("required"):
                fewer = {name: value for name, value in needed.items() if name != each["name"]}
                _ask(recorder, node.api, template, template, fewer)


def _questions(
    template: str, named: list[str], known: dict[str, list[str]], needed: dict[str, str]
) -> Iterator[tuple[str, dict[str, str]]]:
    places = list(_places(template, known))
    for place in places:
        yield place, needed
    if not places:
        return
    for name in [*named, *(["is_not_there"] if named else [])]:
        for value in _OF_ROUTE.get((template, name)) or _QUERIES.get(name, [MISSING]):
            yield places[0], {**needed, name: value}


def _places(template: str, known: dict[str, list[str]]) -> Iterator[str]:
    """The paths of a route: of everything that there is, and with each of its parts missing."""
    parts = [each.partition("}")[0] for each in template.split("{")[1:]]
    last = len(parts) - 1
    values = [(known.get(template) if at == 0 else None) or known.get(part, [MISSING]) for at, part in enumerate(parts)]
    if parts and template in known and last > 0:
        values[0] = known[template]
    chosen = list(itertools.product(*values))
    if parts and chosen:
        chosen += [
            tuple(MISSING if at == part else one for at, one in enumerate(chosen[0])) for part in range(last + 1)
        ]
    for each in dict.fromkeys(chosen):
        place = template
        for part, value in zip(parts, each, strict=True):
            place = place.replace(f"{{{part}}}", quote(value, safe=":@"))
        yield place


def _ask(recorder: Recorder, client: httpx.Client, template: str, place: str, query: dict[str, str]) -> None:
    asked = "&".join(f"{name}={value}" for name, value in query.items()).replace("/", "_")
    name = f"reads{place}/GET{'_' + asked if asked else ''}"
    recorder.http(client, "GET", place, name, template=template, params=query)


def refuse_all(recorder: Recorder, node: RecordedNode, document: dict[str, Any]) -> None:
    """Ask every route without credentials and as roles that may not; only what is refused is recorded with its text."""
    for template, methods in sorted(document["paths"].items()):
        place = next(_places(template, {}))
        for method in sorted(methods):
            for role in ("none", "publisher", "viewer", "operator"):
                may_change = method != "get" and role == "operator"
                if template in _OPEN or may_change or (method == "get" and role in {"viewer", "operator"}):
                    continue
                auth = None if role == "none" else (KEYS[role], SECRET)
                with node.client(auth) as client:
                    name = f"refused{template}/{method.upper()}_{role}"
                    recorder.http(client, method.upper(), place, name, template=template)


_OPEN: Final = ("/login", "/heliograph/set_up", "/sso/login/oidc", "/sso/oidc/callback", "/status")
