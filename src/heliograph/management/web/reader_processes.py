"""Asks the storage reader for stored messages, in a process for each question: it needs pyarrow, this one does not."""

import asyncio
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from fastapi import Request

from heliograph.control.proto_v1.storage import DS_READER
from heliograph.management.web.asked_nodes import AskedNodes
from heliograph.management.web.errors import ApiError
from heliograph.processes.programs import Programs

SEARCH: Final = "heliograph.pipeline.datasource.search"
MESSAGE_LINES: Final = "heliograph.pipeline.datasource.message_lines"
SEEN_TOPICS: Final = "heliograph.pipeline.datasource.seen_topics"
_TOKEN: Final = "flight_token"
_AT_ONCE: Final = 2
_WAIT_S: Final = 10.0  # for one of them to end
_END_S: Final = 30.0


async def ask_reader(
    request: Request,
    nodes: AskedNodes,
    module: str,
    asked: Mapping[str, Any],
    refused: tuple[int, str] = (400, "BAD_REQUEST"),
) -> dict[str, Any]:
    """Ask one question.

    Args:
        module: The program of the process, which gets `asked` as JSON, with the reader's address and token.
        refused: What is answered where the reader refuses.

    Raises:
        ApiError: 503, there is no reader, or as many ask it as may and go on; `refused`.
    """
    access = await reader_access(request, nodes)
    questions = _questions(request)
    try:
        async with asyncio.timeout(_WAIT_S):
            await questions.acquire()
    except TimeoutError:
        text = f"{_AT_ONCE} searches are under way, and none has ended: try again"
        raise ApiError(503, "SERVICE_UNAVAILABLE", text) from None
    try:
        answer = await _run(request.app.state.programs, module, json.dumps({**asked, **access}).encode())
    finally:
        questions.release()
    if "error" in answer:
        is_absent = answer["error"]["code"] == "pipeline_reader_unavailable"
        status, code = (503, "SERVICE_UNAVAILABLE") if is_absent else refused
        raise ApiError(status, code, answer["error"]["message"])
    return answer


async def reader_access(request: Request, nodes: AskedNodes) -> dict[str, str]:
    """The reader's address and the token that it takes: `endpoint` and `token`.

    Raises:
        ApiError: 503, there is no reader.
    """
    reader = await nodes.own.ask(DS_READER())
    if reader.pid is None:
        raise ApiError(503, "SERVICE_UNAVAILABLE", "the storage reader does not run (durable_storage.flight.enable)")
    data_dir = Path(request.app.state.settings.data_dir)
    return {"endpoint": reader.bind, "token": await asyncio.to_thread(_token, data_dir / _TOKEN)}


async def _run(programs: Programs, module: str, asked: bytes) -> dict[str, Any]:
    pipe = asyncio.subprocess.PIPE
    process = await programs.start(module, stdin=pipe, stdout=pipe)
    try:
        async with asyncio.timeout(_END_S):
            stdout, _ = await process.communicate(asked)
    except TimeoutError:
        raise ApiError(503, "SERVICE_UNAVAILABLE", "the search took too long: ask for less time or topics") from None
    finally:
        if process.returncode is None:
            process.kill()
    if process.returncode:
        raise ApiError(503, "SERVICE_UNAVAILABLE", "the search failed; the log of the node says why")
    answer: dict[str, Any] = json.loads(stdout)
    return answer


def _questions(request: Request) -> asyncio.Semaphore:
    state = request.app.state
    if not hasattr(state, "reader_questions"):
        state.reader_questions = asyncio.Semaphore(_AT_ONCE)
    questions: asyncio.Semaphore = state.reader_questions
    return questions


def _token(file: Path) -> str:
    try:
        return file.read_text("ascii").strip()
    except OSError:
        return ""
