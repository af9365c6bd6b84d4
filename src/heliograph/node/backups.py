"""Backups of a node, as a part of it: made when they are asked for and when they are due.

A process beside the node links and copies; the node notes in one turn of its loop how long the files of its
databases are, which is the moment that a backup shows.
"""

import asyncio
import json
import logging
import os
import shutil
import time
from contextlib import suppress
from pathlib import Path
from typing import Final

import msgspec

from heliograph import __version__
from heliograph.config.backup import BackupConfig
from heliograph.config.settings import Config
from heliograph.control.proto_v1.backups import BackupMade, BackupRow, BackupStatus
from heliograph.node.data_dir import DataDirectory
from heliograph.node.databases import Databases
from heliograph.node.kernel import KernelPart
from heliograph.outbound import Outbound, OutboundDeniedError
from heliograph.outbound.stores import check_store
from heliograph.parts import Change, Part
from heliograph.processes.child_process import ChildProcess
from heliograph.processes.programs import PROGRAMS, Programs
from heliograph.settings.url_secrets import masked_url
from heliograph.storage.backup.capture import WORK
from heliograph.storage.backup.copying import BackupOrigin, Copied
from heliograph.storage.backup.errors import BackupDamagedError, BackupFailedError, BackupFullError
from heliograph.storage.backup.moment import positions
from heliograph.storage.backup.worker import Moment, Wanted, WorkerAnswer
from heliograph.storage.durable_files import write_durably
from heliograph.storage.errors import StorageError
from heliograph.storage.store import open_stores

_log = logging.getLogger(__name__)

_FAILED_ALARM: Final = "backup_failed"
_LATE_ALARM: Final = "backup_late"
_NOTE: Final = "last_backup"
_WORKER: Final = "heliograph.storage.backup.worker"
_NICENESS: Final = 19
_STOP_S: Final = 5.0
_LINE_BYTES: Final = 16 << 20
_FLUSH_POLL_S: Final = 0.01
_FLUSH_POLLS: Final = 3000
_RETRY_US: Final = 600_000_000
_LATE_TIMES: Final = 2  # of `every`
_SECOND_US: Final = 1_000_000
_KINDS: Final = {kind.code: kind for kind in (BackupFailedError, BackupFullError, BackupDamagedError)}


class Note(msgspec.Struct, frozen=True):
    """The newest backup that was made, kept in the data directory.

    Attributes:
        place: Without what is a secret in a URL.
        at: Its moment, in microseconds since the epoch.
    """

    place: str = ""
    id: str = ""
    at: int = 0


class BackupsPart(ChildProcess, Part):
    """Makes the backups of a node, one at a time; owned by the node.

    Attributes:
        programs: Starts the process of a backup.
    """

    name = "backups"
    needs = ("data_dir", "kernel", "databases")
    roots = ("backup",)

    def __init__(
        self,
        config: Config,
        directory: DataDirectory,
        kernel: KernelPart,
        databases: Databases,
        outbound: Outbound,
        programs: Programs = PROGRAMS,
    ) -> None:
        super().__init__(_STOP_S)
        self._dialer = outbound.dialer("backup.place")
        self._config = config
        self._settings: BackupConfig = config.backup
        self._directory = directory
        self._kernel = kernel
        self._databases = databases
        self.programs = programs
        self._task: asyncio.Task[BackupMade] | None = None
        self._alone = asyncio.Lock()  # of what is made, and what is verified
        self._note = Note()
        self._since_us = 0  # when it began to wait for a backup by itself
        self._retry_us = 0
        self._problem = ""
        self._progress = (0, 0)  # bytes of the one that is made now, and of all of it

    async def start(self) -> None:
        self._since_us = self._kernel.clock.now_us()
        shutil.rmtree(self._work, ignore_errors=True)  # its links keep what is deleted since
        with suppress(OSError, msgspec.DecodeError, UnicodeDecodeError):
            self._note = msgspec.json.decode((self._directory.path / _NOTE).read_bytes(), type=Note)

    async def stop(self) -> None:
        """A backup that is being made is given up; the next one uses what was copied."""
        await ChildProcess.stop(self)
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def check(self, new: Config) -> Change | None:
        return Change(lambda: self._use(new))

    def tick(self, uptime_us: int) -> None:
        settings, now_us = self._settings, self._kernel.clock.now_us()
        if not settings.enable:
            return
        due_us = self._due_us()
        if now_us >= due_us + (_LATE_TIMES - 1) * settings.every * _SECOND_US:
            place = masked_url(settings.place)
            problem = f"the backup to {place} that was due at {due_us // _SECOND_US} is not made"
            details = {"place": place, "due": due_us // _SECOND_US, "problem": self._problem}
            self._kernel.alarms.activate(_LATE_ALARM, problem, details, logs_message=True, degrades=False)
        if now_us >= max(due_us, self._retry_us) and not self.is_running:
            self._begin(settings.place, settings.secrets).add_done_callback(_look_at)

    @property
    def is_running(self) -> bool:
        """Whether one is made now."""
        return self._task is not None and not self._task.done()

    async def finished(self) -> None:
        """Wait until the one that is made now is done."""
        if self._task is not None:
            await asyncio.wait([self._task])

    async def make(self, place: str, secrets: bool | None) -> BackupMade:
        """Make one now; it goes on where the caller does not wait for it.

        Args:
            place: Where to; empty for the configured place.
            secrets: Whether tokens and private keys are in it; None for the setting.

        Raises:
            BackupFailedError: It was not made.
        """
        if self.is_running:
            raise BackupFailedError("a backup is being made now: wait until it is done")
        wanted = place or self._settings.place
        return await asyncio.shield(self._begin(wanted, self._settings.secrets if secrets is None else secrets))

    def status(self) -> BackupStatus:
        settings, note = self._settings, self._note
        due_us = max(self._due_us(), self._retry_us) if settings.enable else None
        last = note.at or None
        return BackupStatus(
            settings.enable,
            masked_url(settings.place),
            self.is_running,
            note.id,
            note.place,
            last,
            due_us,
            self._problem,
            settings.every,
            settings.keep,
            *self._progress,
        )

    async def rows(self) -> list[BackupRow]:
        """Those in the configured place; Arrow, which an object store needs, stays out of this process.

        Raises:
            BackupFailedError: The place cannot be read.
        """
        return await self._rows("list") if self._settings.place else []

    async def verify(self, name: str) -> BackupRow:
        """Read all content of one in the configured place; as `rows`. It waits for others, which may remove some."""
        async with self._alone:
            [row] = await self._rows("verify", name)
        return row

    async def _rows(self, action: str, *names: str) -> list[BackupRow]:
        await self._check_place(self._settings.place)
        process = await self.programs.start(
            _WORKER,
            action,
            self._settings.place,
            *names,
            stdout=asyncio.subprocess.PIPE,
            stdin=asyncio.subprocess.DEVNULL,
        )
        try:
            _make_less_urgent(process.pid)
            out, _ = await process.communicate()
        finally:
            await self._end(process)
        found: list[BackupRow] = []
        for line in out.splitlines():
            fields = json.loads(line)
            if "error" in fields:
                raise _KINDS.get(fields["code"], BackupFailedError)(fields["error"])
            found.append(msgspec.convert(fields, BackupRow))
        if process.returncode:
            raise BackupFailedError(
                f"the process that reads backups ended with {process.returncode}: look into its log"
            )
        return found

    @property
    def _work(self) -> Path:
        return self._directory.path / WORK

    def _use(self, config: Config) -> None:
        if config.backup != self._settings:
            self._since_us, self._retry_us = self._kernel.clock.now_us(), 0
            self._kernel.alarms.deactivate(_LATE_ALARM)
        self._config, self._settings = config, config.backup

    def _due_us(self) -> int:
        """When the next one is to be made; at once where none was made to this place."""
        if self._note.place != masked_url(self._settings.place):
            return self._since_us
        return self._note.at + int(self._settings.every * _SECOND_US)

    def _begin(self, place: str, secrets: bool) -> asyncio.Task[BackupMade]:
        self._task = asyncio.get_running_loop().create_task(self._make(place, secrets), name="backup")
        return self._task

    async def _make(self, place: str, secrets: bool) -> BackupMade:
        try:
            async with self._alone:
                made = await self._made(place, secrets)
        except Exception as error:
            failed = error if isinstance(error, StorageError) else BackupFailedError(str(error) or repr(error))
            self._retry_us = self._kernel.clock.now_us() + _RETRY_US
            self._problem = f"[{failed.code}] {failed}"
            _log.error("no backup was made to %s %s", masked_url(place), self._problem)
            details = {"place": masked_url(place), "code": failed.code}
            self._kernel.alarms.activate(_FAILED_ALARM, self._problem, details, degrades=False)
            raise failed from error
        finally:
            await asyncio.to_thread(shutil.rmtree, self._work, ignore_errors=True)
        self._problem, self._retry_us = "", 0
        self._note = Note(made.place, made.id, made.at)
        with suppress(OSError):  # then the next start makes one early
            write_durably(self._directory.path / _NOTE, msgspec.json.encode(self._note))
        for alarm in (_FAILED_ALARM, _LATE_ALARM):
            self._kernel.alarms.deactivate(alarm)
        text = "the backup %s in %s has %s bytes, of which %s were copied in %.1f s; the loop was held for %.1f ms"
        _log.info(text, made.id, made.place, f"{made.bytes:,}", f"{made.copied_bytes:,}", made.duration_s, made.held_ms)
        return made

    async def _made(self, place: str, secrets: bool) -> BackupMade:
        data_dir, settings = self._directory.path, self._settings
        await self._check_place(place)
        await asyncio.to_thread(_make_empty, self._work)
        keep = settings.keep if place == settings.place else None
        await self._flush(data_dir)
        origin = BackupOrigin(
            self._config.node.name, self._site(), __version__, 0, secrets, tuple(_outside(self._config, data_dir))
        )
        wanted = Wanted(str(data_dir), str(self._work), place, origin, settings.rate, keep, self._config.node.tls_dir)
        self._process = process = await self.programs.start(
            _WORKER, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, limit=_LINE_BYTES
        )
        try:
            _make_less_urgent(process.pid)
            await _tell(process, msgspec.json.encode(wanted))
            held_s = 0.0
            while (copied := (answer := await _heard(process)).copied) is None:
                if not answer.files:
                    self._progress = (answer.done, answer.total)
                    continue
                began = time.perf_counter()
                moment = msgspec.json.encode(Moment(self._kernel.clock.now_us(), positions(data_dir, answer.files)))
                held_s = max(held_s, time.perf_counter() - began)
                await _tell(process, moment)
            await process.wait()
        finally:
            self._process, self._progress = None, (0, 0)
            await self._end(process)
        return _row(masked_url(place), copied, held_s * 1000)

    async def _check_place(self, place: str) -> None:
        try:
            await check_store(self._dialer, place)
        except OutboundDeniedError as error:
            raise BackupFailedError(str(error)) from error

    async def _flush(self, data_dir: Path) -> None:
        """Make tables of what the logs hold, one database after the other: a table is copied once, a log each time."""
        for store in open_stores(data_dir).values():
            if store.is_open:
                store.begin_flush()
                for _ in range(_FLUSH_POLLS):
                    if not store.is_flushing:
                        break
                    await asyncio.sleep(_FLUSH_POLL_S)  # nothing is called when RocksDB is done

    def _site(self) -> str:
        try:
            return self._databases.site_id if self._databases.is_open else ""
        except StorageError:
            return ""

    def __repr__(self) -> str:
        return f"BackupsPart({self._settings.place!r}, last {self._note.id or 'never'})"


def _make_empty(work: Path) -> None:
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(mode=0o700)


def _make_less_urgent(pid: int) -> None:
    """Before it loads its modules, which takes a second of a core."""
    with suppress(OSError):  # it died
        os.setpriority(os.PRIO_PROCESS, pid, _NICENESS)


def _outside(config: Config, data_dir: Path) -> list[str]:
    """Where generations are offloaded to outside the data directory."""
    storage = config.durable_storage
    targets = {one.offload.target for one in (storage.messages, *storage.databases.values()) if one.offload.target}
    return sorted(one for one in targets if "://" in one or not (data_dir / one).is_relative_to(data_dir))


async def _tell(process: asyncio.subprocess.Process, line: bytes) -> None:
    assert process.stdin is not None
    with suppress(OSError):  # it died, which its answer says
        process.stdin.write(line + b"\n")
        await process.stdin.drain()


async def _heard(process: asyncio.subprocess.Process) -> WorkerAnswer:
    assert process.stdout is not None
    line = await process.stdout.readline()
    if not line:
        raise BackupFailedError(f"its process ended with code {await process.wait()}")
    answer = msgspec.json.decode(line, type=WorkerAnswer)
    if answer.code:
        raise _KINDS.get(answer.code, BackupFailedError)(answer.error)
    return answer


def _row(place: str, copied: Copied, held_ms: float) -> BackupMade:
    return BackupMade(
        place, copied.id, copied.at, copied.files, copied.size, copied.copied_files, copied.copied_bytes,
        copied.duration_s, held_ms, copied.removed,
    )  # fmt: skip


def _look_at(task: "asyncio.Task[BackupMade]") -> None:
    """The log and an alarm have its error."""
    if not task.cancelled():
        task.exception()
