"""Makes, changes and deletes one of each kind over the API: good, wrong, missing and in use."""

import time
from collections.abc import Callable, Iterator
from typing import Any, Final

import httpx
from scripts.answers.flow_steps import CHANGES_OF_FLOW
from scripts.answers.node_steps import CHANGES_OF_NODE
from scripts.answers.recorded_node import RecordedNode, wait_for
from scripts.answers.recorder import Recorder
from scripts.answers.scene import NODE
from scripts.answers.steps import HTTPX


def change_all(recorder: Recorder, node: RecordedNode, document: dict[str, Any]) -> None:
    """Carry out the steps of every family, then what needs an answer of before."""
    ports = {f"<{name}>": str(number) for name, number in node.ports.items()}
    for family, steps in {**CHANGES_OF_FLOW, **CHANGES_OF_NODE}.items():
        for number, step in enumerate(steps):
            asked = step[2] if len(step) > 2 else {}
            given = _filled(asked, ports)
            is_whole = isinstance(given, dict) and bool(given) and given.keys() <= HTTPX
            more = given if is_whole or len(step) == 2 else {"json": given}
            _step(recorder, node.api, family, number, step[0], step[1], document, **more)
    for family, act in _FOLLOWING.items():
        numbers = iter(range(1000))

        def ask(method: str, path: str, family: str = family, numbers: Iterator[int] = numbers, **more: Any) -> Any:
            return _step(recorder, node.api, family, next(numbers), method, path, document, **more)

        act(ask, recorder)


def _step(
    recorder: Recorder,
    client: httpx.Client,
    family: str,
    number: int,
    method: str,
    path: str,
    document: dict[str, Any],
    **more: Any,
) -> httpx.Response:
    name = f"changes/{family}/{number:03}_{method}_{path.strip('/').replace('/', '_')}"
    return recorder.http(client, method, path, name, template=_template(path, document), **more)


def _template(path: str, document: dict[str, Any]) -> str:
    """The path as the document has it."""
    parts = path.split("/")
    fitting = [
        each
        for each in document["paths"]
        if len(theirs := each.split("/")) == len(parts)
        and all(ours == other or other.startswith("{") for ours, other in zip(parts, theirs, strict=True))
    ]
    return min(fitting, key=lambda each: each.count("{"), default=path)


def _filled(value: Any, words: dict[str, str]) -> Any:
    if isinstance(value, dict):
        return {key: _filled(each, words) for key, each in value.items()}
    if isinstance(value, list):
        return [_filled(each, words) for each in value]
    if isinstance(value, str):
        for word, text in words.items():
            value = value.replace(word, text)
    return value


Ask = Callable[..., httpx.Response]


def _plans(ask: Ask, recorder: Recorder) -> None:
    for method in ("kick", "ban"):
        plan = ask("POST", "/heliograph/clients/plan", params={"like_clientid": f"meter-{'23'[method == 'ban']}"})
        recorder.normal.word(word := plan.json()["plan"], f"<plan of {method}>")
        more = {"reason": "tests"} if method == "ban" else {}
        for _ in range(2):
            ask("POST", f"/heliograph/clients/{method}", json={"plan": word, **more})


def _backups(ask: Ask, recorder: Recorder) -> None:
    made = ask("POST", "/data/export", json={"table_sets": ["banned"], "root_keys": ["mqtt"]})
    name = made.json()["filename"]
    recorder.normal.word(name, "<archive>")
    ask("GET", "/data/files")
    content = ask("GET", f"/data/files/{name}").content
    ask("POST", "/data/import", json={"filename": name})
    ask("DELETE", f"/data/files/{name}")
    ask("POST", "/data/files", files={"filename": (name, content)})
    ask("DELETE", f"/data/files/{name}")
    ask("GET", f"/data/files/{name}")


def _delayed(ask: Ask, recorder: Recorder) -> None:
    msgid = ask("GET", "/mqtt/delayed/messages").json()["data"][0]["msgid"]
    recorder.normal.word(msgid, "<delayed>")
    for _ in range(2):
        ask("DELETE", f"/mqtt/delayed/messages/{NODE}/{msgid}")


def _replays(ask: Ask, recorder: Recorder) -> None:
    base = "/heliograph/rule_replays"
    ask("POST", base, json={"from": "earliest", "sql": "SELECT"})
    ask("POST", base, json={"from": "soon", "rule": "copy"})
    sql = 'SELECT payload.n AS n FROM "kept/#" WHERE payload.n > 2'
    made = ask("POST", base, json={"from": "earliest", "sql": sql, "compare": "tells"})
    _job(ask, recorder, base, str(made.json()["id"]))
    base = "/heliograph/message_replays"
    ask("POST", base, json={"topic": "kept/#", "target": ""})
    made = ask("POST", base, json={"topic": "kept/#", "target": "again/${topic}"})
    ask("GET", base)
    _job(ask, recorder, base, str(made.json()["id"]))


def _job(ask: Ask, recorder: Recorder, base: str, job: str) -> None:
    recorder.normal.word(job, "<job>")
    end = time.monotonic() + 100

    def has_ended() -> bool:
        return time.monotonic() > end or _state(f"{base}/{job}") != "running"

    def _state(path: str) -> str:
        return str(recorder.quiet(path).json()["state"])

    wait_for(has_ended, "the job has ended")
    ask("GET", f"{base}/{job}")
    ask("GET", f"{base}/{job}/events")
    if "rule" in base:
        ask("POST", f"{base}/{job}/start")
    for _ in range(2):
        ask("DELETE", f"{base}/{job}")
    ask("GET", f"{base}/{job}")


_FOLLOWING: Final[dict[str, Callable[[Ask, Recorder], None]]] = {
    "plans": _plans,
    "backups": _backups,
    "delayed_ids": _delayed,
    "replays": _replays,
}
