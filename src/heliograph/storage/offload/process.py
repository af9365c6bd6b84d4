"""The offload process beside the broker: started when it is needed, asked over its pipes, started again when it died.

Both directions are lines of JSON. A request has an `id` and what to do (see `worker`); each answer repeats the
id and says how many `bytes` of payload follow its line. The last answer of a request says `end`, or `error`.
"""

import asyncio
import contextlib
import itertools
import json
import logging
import os
import time
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any, Final

from heliograph.outbound import Dialer, OutboundDeniedError
from heliograph.outbound.stores import check_store
from heliograph.processes.child_process import ChildProcess
from heliograph.processes.programs import PROGRAMS, Programs
from heliograph.storage.columnar.offloaded import OffloadError
from heliograph.storage.errors import StorageDamagedError, StorageError

_log = logging.getLogger(__name__)

_ANSWERS_WAITING_MAX: Final = 4
_IDLE_S: Final = 60.0
_STOP_S: Final = 5.0
_START_INTERVAL_S: Final = 1.0

Answer = tuple[dict[str, Any], bytes]


class OffloadProcess(ChildProcess):
    """The process of one node. Owned by the node; used in its event loop.

    Args:
        dialer: Says which stores may be connected to; without, all.
    """

    def __init__(self, data_dir: Path, programs: Programs = PROGRAMS, dialer: Dialer | None = None) -> None:
        super().__init__(_STOP_S)
        self._dialer = dialer
        self._data_dir = data_dir
        self._programs = programs
        self._reading: asyncio.Task[None] | None = None
        self._starting = asyncio.Lock()
        self._started_at = -_START_INTERVAL_S
        self._used_at = 0.0
        self._ids = itertools.count(1)
        self._answers: dict[int, asyncio.Queue[Answer | StorageError]] = {}
        self._starts = 0

    async def request(self, **fields: object) -> AsyncGenerator[Answer, None]:
        """Ask for something; starts the process if it does not run."""
        await self._check_store(fields.get("target"))
        number = next(self._ids)
        answers: asyncio.Queue[Answer | StorageError] = asyncio.Queue(_ANSWERS_WAITING_MAX)
        self._answers[number] = answers
        try:
            stdin = await self._ready()
            stdin.write(json.dumps({"id": number, **fields}).encode() + b"\n")
            with contextlib.suppress(OSError):  # it died, which its reader says
                await stdin.drain()
            while True:
                answer = await answers.get()
                if isinstance(answer, StorageError):
                    raise answer
                if answer[0].get("end"):
                    return
                yield answer
        finally:
            self._used_at = time.monotonic()
            self._answers.pop(number, None)
            while not answers.empty():  # so that the reader does not wait for room
                answers.get_nowait()

    async def _check_store(self, target: object) -> None:
        if self._dialer is not None and isinstance(target, str):
            try:
                await check_store(self._dialer, target)
            except OutboundDeniedError as error:
                raise OffloadError(str(error), database="") from error

    async def rest(self) -> None:
        if self.pid is not None and not self._answers and time.monotonic() > self._used_at + _IDLE_S:
            await self.stop()

    async def stop(self) -> None:
        answers, self._reading = self._reading, None  # another process may be started meanwhile
        if answers is not None:
            answers.cancel()
        process, self._process = self._process, None
        if answers is not None:
            await asyncio.gather(answers, return_exceptions=True)
        if process is not None:
            await self._end(process)

    def _ask_to_stop(self, process: asyncio.subprocess.Process) -> None:
        """The end of its input is enough: it finishes what it writes."""

    def statistics(self) -> dict[str, int]:
        return {"running": int(self.pid is not None), "starts": self._starts}

    async def _ready(self) -> asyncio.StreamWriter:
        async with self._starting:
            if self.pid is None:
                await asyncio.sleep(max(0.0, self._started_at + _START_INTERVAL_S - time.monotonic()))
                self._started_at = time.monotonic()
                await self._start()
            assert self._process is not None
            assert self._process.stdin is not None
            return self._process.stdin

    async def _start(self) -> None:
        try:
            self._process = await self._programs.start(
                *("heliograph.storage.offload.worker", "--data-dir", str(self._data_dir)),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                env={**os.environ, "PYTHONUNBUFFERED": "1"},
                limit=1 << 20,
            )
        except OSError as error:
            raise OffloadError(f"the offload process does not start: {error}", database="") from error
        self._starts += 1
        self._reading = asyncio.create_task(self._read(self._process), name="offload-answers")

    async def _read(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdout is not None
        try:
            while line := await process.stdout.readline():
                header = json.loads(line)
                payload = await process.stdout.readexactly(header.get("bytes", 0))
                waiting = self._answers.get(header["id"])
                if waiting is not None:
                    await waiting.put(_error_of(header) or (header, payload))
        except asyncio.IncompleteReadError:
            pass
        except (ValueError, KeyError) as error:  # what waits would wait for ever
            _log.error("the offload process is ended, since it answered what is no answer: %s", error)
            with contextlib.suppress(ProcessLookupError):
                process.kill()
        code = await process.wait()
        if self._answers:
            _log.warning("the offload process ended with code %s", code)
        for answers in list(self._answers.values()):
            await answers.put(OffloadError(f"the offload process ended with code {code}", database=""))

    def __repr__(self) -> str:
        return f"OffloadProcess(pid {self.pid}, {self._starts} starts, {len(self._answers)} requests)"


def _error_of(header: dict[str, Any]) -> StorageError | None:
    problem = header.get("error")
    if problem is None:
        return None
    kind = StorageDamagedError if header.get("code") == StorageDamagedError.code else OffloadError
    return kind(problem, database="")
