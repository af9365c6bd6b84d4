"""Records what the HTTP API and `heliograph ctl` answer, one file for each call: `make answers`.

A recording of another checkout is compared by `diff -r`. What differs between two runs of the same code (times, ids,
ports) has a name instead (`scripts/answers/normal.py`), so what `diff` shows is a change that a user would see.
"""

import argparse
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from scripts.answers.changes import change_all
from scripts.answers.commands import command_all, uncovered
from scripts.answers.normal import Normal
from scripts.answers.reads import read_all, refuse_all
from scripts.answers.recorded_node import RecordedNode
from scripts.answers.recorder import Recorder
from scripts.answers.scene import FILE, SETTINGS, prepare

CHECKOUT: Final = Path(__file__).resolve().parents[1]
_PARTS: Final = ("reads", "changes", "commands")


def main() -> int:
    """Record; 1 if a route is not asked."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("output", type=Path, help="the directory of the recording; what it holds is replaced")
    parser.add_argument("--source", type=Path, default=CHECKOUT, help="the checkout that is recorded (%(default)s)")
    parser.add_argument("--only", choices=_PARTS, nargs="*", default=_PARTS, help="parts of the recording")
    parser.add_argument("--list", action="store_true", help="print each call with its statuses")
    args = parser.parse_args()
    shutil.rmtree(args.output, ignore_errors=True)
    recorder = Recorder(args.output, Normal())
    begin = time.monotonic()
    document: dict[str, Any] = {}
    commands: list[str] = []
    for part in args.only:
        with _node(args.source.resolve(), recorder) as node:
            document = document or node.api.get("/../../api-docs/swagger.json").json()
            _RECORDED[part](recorder, node, document)
            commands = uncovered(node, recorder)
            recorder.finish()
    if args.list:
        for call, statuses in recorder.statuses.items():
            print(f"{call}: {' '.join(map(str, statuses))}")
    print(f"{recorder.count} calls in {time.monotonic() - begin:.0f} s: {args.output}")
    return int(bool(set(args.only) == set(_PARTS) and _uncovered(recorder, document, commands)))


@contextmanager
def _node(source: Path, recorder: Recorder) -> Iterator[RecordedNode]:
    with (
        tempfile.TemporaryDirectory(prefix="answers-") as name,
        RecordedNode(source, Path(name), FILE, SETTINGS) as node,
    ):
        recorder.normal.word(name, "<dir>")
        recorder.normal.word(str(source), "<source>")
        for port, number in node.ports.items():
            recorder.normal.word(str(number), f"<{port}>")
        prepare(node)
        recorder.normal.word(_site(node), "<site>")
        yield node


def _site(node: RecordedNode) -> str:
    return str(node.api.get("/ds/sites").json()[0])


def _read(recorder: Recorder, node: RecordedNode, document: dict[str, Any]) -> None:
    _keep_document(recorder, node)
    messages = node.api.get("/heliograph/messages", params={"topic": "kept/#"}).json()["data"]
    ways = node.api.get("/heliograph/message_ways", params={"topic": "#"}).json()["data"]
    delayed = node.api.get("/mqtt/delayed/messages").json()["data"]
    for kind, rows, key in (("message", messages, "id"), ("way", ways, "id"), ("delayed", delayed, "msgid")):
        for number, row in enumerate(rows):
            for word in (row[key], quote(row[key], safe=":@")):
                recorder.normal.word(word, f"<{kind}-{number}>")
    ids = {
        "site": [_site(node)],
        "/heliograph/messages/{id}": [messages[0]["id"]],
        "/heliograph/message_ways/{id}": [row["id"] for row in ways],
        "msgid": [row["msgid"] for row in delayed],
        "root": sorted(node.api.get("/configs", headers={"accept": "application/json"}).json()),
    }
    read_all(recorder, node, document, ids)
    refuse_all(recorder, node, document)


def _keep_document(recorder: Recorder, node: RecordedNode) -> None:
    for name in ("/api-docs/swagger.json", "/api-docs/swagger-3.1.json", "/api-docs", "/status", "/"):
        url = f"http://127.0.0.1:{node.ports['http']}{name}"
        recorder.http(node.api, "GET", url, f"document{name}", template=name)


_RECORDED: Final = {"reads": _read, "changes": change_all, "commands": command_all}


def _uncovered(recorder: Recorder, document: dict[str, Any], commands: list[str]) -> int:
    """Print each route and command that only refused; how many no call asks."""
    asked = recorder.statuses
    routes = [f"{method.upper()} {path}" for path, methods in document["paths"].items() for method in methods]
    for each in routes:
        if not any(status < 400 for status in asked.get(each, [])):
            print(f"only refused: {each}: {', '.join(map(str, sorted(set(asked.get(each, [])))))}")
    for each in commands:
        print(f"only refused: heliograph ctl {each}")
    missing = [each for each in routes if each not in asked]
    for each in missing:
        print(f"not asked: {each}", file=sys.stderr)
    return len(missing)


if __name__ == "__main__":
    sys.exit(main())
