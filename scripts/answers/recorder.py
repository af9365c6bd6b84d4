"""Asks, and writes one file for each call: what was asked, and the answer in a form that is the same each time."""

import io
import json
import re
import zipfile
from pathlib import Path
from typing import Any, Final

import httpx
from scripts.answers.normal import Normal
from scripts.answers.recorded_node import RecordedNode

_HEADERS: Final = ("content-type", "content-disposition", "location", "www-authenticate", "allow", "cache-control")
_STREAM: Final = "text/event-stream"


class Recorder:
    """The files of one recording.

    Args:
        output: Where they go.

    Attributes:
        normal: What makes answers the same each time.
        count: How many calls it has written.
    """

    def __init__(self, output: Path, normal: Normal) -> None:
        self._output = output
        self.normal = normal
        self.count = 0
        self._calls: list[tuple[str, str]] = []
        self.asks: httpx.Client  # the client of the call before
        self.statuses: dict[str, list[int]] = {}

    def http(
        self, client: httpx.Client, method: str, path: str, name: str, *, template: str = "", **asked: Any
    ) -> httpx.Response:
        """Ask the HTTP API.

        Args:
            name: Of the file, without its ending.
            template: The path as the document has it, for the list of what is covered.
            asked: As httpx takes it.
        """
        self.asks = client
        with client.stream(method, path, **asked) as answer:
            if answer.headers.get("content-type", "").startswith(_STREAM):
                body = "".join(_first_event(answer))
            else:
                answer.read()
                body = self._readable(name, answer)
        self.statuses.setdefault(f"{method} {template or path}", []).append(answer.status_code)
        question = [f"{method} {answer.request.url.raw_path.decode().removeprefix('/api/v5')}"]
        if "json" in asked:
            question.append(json.dumps(asked["json"], ensure_ascii=False))
        elif "content" in asked:
            question.append(str(asked["content"]))
        heads = [f"{one}: {answer.headers[one]}" for one in _HEADERS if one in answer.headers]
        self._write(name, question, [str(answer.status_code), *heads, "", body])
        return answer

    def quiet(self, path: str) -> httpx.Response:
        """Read something that is not recorded, as the caller of the call before."""
        return self.asks.get(path)

    def command(self, node: RecordedNode, words: list[str], name: str, stdin: str = "") -> str:
        """Run `heliograph ctl`; what it prints."""
        outcome = node.command(["ctl", *words], stdin)
        self.statuses.setdefault(f"ctl {' '.join(words)}", []).append(outcome.code)
        parts = [f"exit code {outcome.code}", "", outcome.out]
        if outcome.err:
            parts += ["--- error output", outcome.err]
        self._write(name, [f"heliograph ctl {' '.join(words)}"], parts)
        return outcome.out

    def _write(self, name: str, question: list[str], answer: list[str]) -> None:
        self.count += 1
        self._calls.append((name, "\n".join([*question, "", *answer])))

    def finish(self) -> None:
        """Write the files, once all ids of a run are known: a call may show one before another says what it is of."""
        for name, text in self._calls:
            stem = re.sub(r"[^\w./=&+,-]", "_", self.normal.words(name))[:200]
            path, number = self._output / f"{stem}.txt", 1
            while path.exists():
                number += 1
                path = self._output / f"{stem}~{number}.txt"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(self.normal.text(str(path.relative_to(self._output)), text) + "\n")
        self._calls.clear()
        self.normal.forget()

    def _readable(self, name: str, answer: httpx.Response) -> str:
        """A body: JSON over many lines where that loses nothing of it."""
        if "gzip" in answer.headers.get("content-type", "") or "octet-stream" in answer.headers.get("content-type", ""):
            return f"<{'gzip' if answer.content[:2] == bytes([31, 139]) else 'bytes'}>"
        if "zip" in answer.headers.get("content-type", ""):
            with zipfile.ZipFile(io.BytesIO(answer.content)) as archive:
                return f"<zip of {', '.join(archive.namelist())}>"
        text = answer.text
        try:
            value = json.loads(text)
        except ValueError:
            return text
        if json.dumps(value, ensure_ascii=False, separators=(",", ":")) == text:
            value = self.normal.value(name, value)
            return json.dumps(value, ensure_ascii=False, indent=1)
        return f"not the shortest form of JSON:\n{text}"


def _first_event(answer: httpx.Response) -> list[str]:
    """The lines of the first event of a stream that has data."""
    lines: list[str] = []
    for line in answer.iter_lines():
        lines.append(line + "\n")
        if not line and any(one.startswith("data") for one in lines):
            break
    return lines
