"""Erasures of a running node, as a part of it: sessions, retained and delayed messages, and stored messages.

A process beside the node finds what is erased (`node.erasure.worker`). The node alone writes its databases: records of
closed generations, a few in each turn of its loop. What else `heliograph erase` erases is left for a stopped node, and
counted in the answer.
"""

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from typing import Final

import msgspec

from heliograph.broker.message import Message
from heliograph.broker.retained import RetainedMatches
from heliograph.control.proto_v1.erasure import ErasureMade, ErasureWanted
from heliograph.control.slices import LoopTurn
from heliograph.mqtt.topic import SYS_PREFIX
from heliograph.node.data_dir import DataDirectory
from heliograph.node.databases import Databases
from heliograph.node.delayed import DelayedPart
from heliograph.node.durable_sessions import SessionsPart
from heliograph.node.erasure.steps import LENGTH_BYTES, ErasureOptions, ErasureStep, StepAnswer
from heliograph.node.kernel import KernelPart
from heliograph.node.stored_messages import StoredMessages
from heliograph.parts import Part
from heliograph.processes.child_process import ChildProcess
from heliograph.processes.programs import PROGRAMS, Programs
from heliograph.retainer.retainer import Retainer
from heliograph.storage.erasure.changes import RecordChange, apply_changes
from heliograph.storage.erasure.errors import ErasureFailedError, ErasureRefusedError
from heliograph.storage.erasure.subject import ErasureSubject
from heliograph.storage.errors import StorageBusyError, StorageDamagedError, StorageError
from heliograph.storage.store import Store, open_stores

_log = logging.getLogger(__name__)

_WORKER: Final = "heliograph.node.erasure.worker"
_STOP_S: Final = 5.0
_BUSY_S: Final = 0.05
_POLL_S: Final = 0.02
_REST: Final = 2  # times as long as it held the loop, for others
_DELAYED_AT_ONCE: Final = 16
_STATE: Final = frozenset({"sessions", "retained", "delayed"})  # databases from which records are erased


class ErasuresPart(ChildProcess, Part):
    """Erases what is asked for, one thing at a time; owned by the node.

    Args:
        retainer: The retainer now; None where nothing is retained.
        programs: Starts the process of an erasure.
    """

    name = "erasures"
    needs = ("data_dir", "kernel", "databases", "delayed", "sessions", "retained")

    def __init__(
        self,
        directory: DataDirectory,
        kernel: KernelPart,
        databases: Databases,
        delayed: DelayedPart,
        sessions: SessionsPart,
        retainer: Callable[[], Retainer | None],
        programs: Programs = PROGRAMS,
    ) -> None:
        super().__init__(_STOP_S)
        self._directory = directory
        self._kernel = kernel
        self._databases = databases
        self._delayed = delayed
        self._sessions = sessions
        self._retainer = retainer
        self._programs = programs
        self._task: asyncio.Task[ErasureMade] | None = None
        self._held_s = 0.0

    async def stop(self) -> None:
        """An erasure that is being made is given up; the same one, made again, goes on."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        await ChildProcess.stop(self)

    async def erase(self, wanted: ErasureWanted) -> ErasureMade:
        """Erase now; it goes on where the caller does not wait for it.

        Raises:
            ErasureRefusedError: Another one is being made, or the client is connected.
            StorageError: It did not come to its end.
        """
        if self._task is not None and not self._task.done():
            raise ErasureRefusedError("an erasure is being made now: wait until it is done")
        subject = ErasureOptions(str(self._directory.path), wanted.clientid, wanted.topic, wanted.before)
        self._check_away(subject.clientid)
        self._task = asyncio.get_running_loop().create_task(self._erase(subject), name="erasure")
        self._task.add_done_callback(_look_at)
        return await asyncio.shield(self._task)

    def _check_away(self, clientid: str | None) -> None:
        if clientid is not None and self._kernel.context.channels.find(clientid) is not None:
            raise ErasureRefusedError(
                # Without its id: the audit log keeps this.
                "the client is connected, and would go on storing: ban it (`heliograph ctl banned add clientid ID`) "
                "or disconnect it (`heliograph ctl clients kick ID`) first"
            )

    async def _erase(self, wanted: ErasureOptions) -> ErasureMade:
        began, self._held_s = time.monotonic(), 0.0
        self._process = process = await self._programs.start(
            _WORKER, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
        )
        try:
            _write(process, wanted)
            records = await self._erase_records(wanted.subject())
            messages = {one.name: await self._erase_messages(process, one) for one in list(self._databases.stored)}
            await self._sessions.settled()
            await self._delayed.settled()
            await self._write_files_again()
            [done] = [answer async for answer in _answers(process, ErasureStep(messages=messages, records=records))]
        finally:
            self._process = None
            await self._end(process)
        _log.info(
            "%s messages of a %s are erased in %.1f s; the loop was held for %.1f ms at most",
            f"{sum(messages.values()):,}", wanted.subject().kind, time.monotonic() - began, self._held_s * 1000,
        )  # fmt: skip
        return _made(messages, records, done, self._held_s)

    async def _erase_records(self, subject: ErasureSubject) -> dict[str, int]:
        """A session ends first: its will is published then, which may be retained."""
        counts = {"sessions": 0}
        if subject.clientid is not None:
            self._kernel.context.begin_turn()
            counts["sessions"] = int(self._kernel.context.sessions.end_away(subject.clientid))
            await asyncio.sleep(0)
        counts["retained"] = await self._erase_retained(subject)
        counts["delayed"] = await self._erase_delayed(subject)
        return counts

    async def _erase_retained(self, subject: ErasureSubject) -> int:
        retainer, turn, count = self._retainer(), LoopTurn(), 0
        if retainer is None:
            return 0
        found = []
        for message in _retained(retainer, subject):
            if message is not None and subject.takes(message.clientid, message.topic, int(message.id_high)):
                found.append((message.topic, message.guid))
            await turn.pause()
        for topic, guid in found:
            now = retainer.listing(topic).next()
            if now is not None and now.guid == guid:  # and not one that another client retained meanwhile
                count += retainer.remove(topic)
            await turn.pause()
        await _durable(retainer)
        return count

    async def _erase_delayed(self, subject: ErasureSubject) -> int:
        messages, turn, after, count = self._delayed.messages, LoopTurn(), 0, 0
        while page := messages.held_after(after, _DELAYED_AT_ONCE):
            after = page[-1].number
            for held in page:
                message = held.message
                if subject.takes(message.clientid, message.topic, int(message.id_high)):
                    count += messages.remove(held.number) is not None
            await turn.pause()
        return count

    async def _erase_messages(self, process: asyncio.subprocess.Process, stored: StoredMessages) -> int:
        async with stored.unchanging():
            answer = StepAnswer()
            async for answer in _answers(process, ErasureStep(stored.name)):
                await self._apply(stored, [RecordChange(*one) for one in answer.changes])
        return answer.messages

    async def _apply(self, stored: StoredMessages, changes: list[RecordChange]) -> None:
        while True:
            began = time.perf_counter()
            try:
                apply_changes(stored.database, changes)
            except StorageBusyError:
                await asyncio.sleep(_BUSY_S)  # RocksDB does not call when it takes writes again
                continue
            held_s = time.perf_counter() - began
            self._held_s = max(self._held_s, held_s)
            await asyncio.sleep(_REST * held_s)  # else clients would have the loop for half of the time only
            return

    async def _write_files_again(self) -> None:
        """Until now the files have what was deleted, also what an erasure has deleted that was cut off."""
        databases = {one.database.path for one in self._databases.stored}
        for path, store in open_stores(self._directory.path).items():
            if store.is_open and (path in databases or path.name in _STATE):
                await _written_again(store)

    def __repr__(self) -> str:
        return f"ErasuresPart({'erases' if self._task is not None and not self._task.done() else 'rests'})"


def _retained(retainer: Retainer, subject: ErasureSubject) -> Iterator[Message | None]:
    """What is retained and may be erased; None stands for a piece of work without one."""
    filters = ("#", f"{SYS_PREFIX}#") if subject.topics is None else (subject.topics.text,)
    for topic_filter in filters:
        matches: RetainedMatches = retainer.listing(topic_filter)
        while not matches.is_done():
            yield matches.next()


async def _durable(retainer: Retainer) -> None:
    done: asyncio.Future[StorageError | None] = asyncio.get_running_loop().create_future()
    retainer.when_durable(lambda error: None if done.done() else done.set_result(error))
    error = await done
    if error is not None:
        raise error


async def _written_again(store: Store) -> None:
    store.begin_flush()
    await _until(lambda: not store.is_flushing)
    before = store.rewrites
    store.write_tables_again()
    await _until(lambda: not store.is_freeing)
    if store.rewrites == before:
        raise ErasureFailedError(f"the files of the database {store.name} are not written again")


async def _until(is_done: Callable[[], bool]) -> None:
    while not is_done():  # noqa: ASYNC110 - RocksDB does not call when it is done
        await asyncio.sleep(_POLL_S)  # a table takes longer to write


async def _answers(process: asyncio.subprocess.Process, step: ErasureStep) -> AsyncIterator[StepAnswer]:
    """What the process answers to a step; the last one is its end.

    Raises:
        ErasureFailedError: It ended, or says why it cannot go on.
    """
    assert process.stdout is not None
    _write(process, step)
    is_end = False
    while not is_end:
        try:
            length = int.from_bytes(await process.stdout.readexactly(LENGTH_BYTES), "big")
            answer = msgspec.msgpack.decode(await process.stdout.readexactly(length), type=StepAnswer)
        except asyncio.IncompleteReadError:
            raise ErasureFailedError(f"its process ended with code {await process.wait()}") from None
        if answer.code == StorageDamagedError.code:
            raise StorageDamagedError(answer.error, database=step.database)
        if answer.code:
            raise ErasureFailedError(answer.error)
        is_end = answer.is_end
        yield answer


def _write(process: asyncio.subprocess.Process, line: msgspec.Struct) -> None:
    assert process.stdin is not None
    process.stdin.write(msgspec.json.encode(line) + b"\n")  # short; where it died, its answer says so


def _made(messages: Mapping[str, int], records: Mapping[str, int], done: StepAnswer, held_s: float) -> ErasureMade:
    left = done.left
    return ErasureMade(
        dict(messages), dict(records), left.messages, left.offloaded_messages, left.records, left.audit_lines,
        left.dead_letters, done.stays, done.still_named, done.record, held_s * 1000,
    )  # fmt: skip


def _look_at(task: asyncio.Task[ErasureMade]) -> None:
    """The caller may be gone."""
    if not task.cancelled() and (error := task.exception()) is not None:
        _log.error("an erasure did not come to its end: %s", error)
