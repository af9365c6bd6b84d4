"""The storage reader as a part of a node: started, found by programs of this user, and listened to about damage."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from functools import partial
from typing import Final

from heliograph.config.settings import Config
from heliograph.config.storage import FlightConfig
from heliograph.node.clock import uptime_us
from heliograph.node.data_dir import DataDirectory
from heliograph.node.kernel import KernelPart
from heliograph.node.metrics import storage as metrics
from heliograph.observe.alarms import UNTIL_START
from heliograph.observe.bounded_log import BoundedLog
from heliograph.observe.metric import Sample, labelled
from heliograph.parts import Change, Part
from heliograph.processes.programs import PROGRAMS
from heliograph.storage.errors import StorageError
from heliograph.storage.reader.configured import reader_security
from heliograph.storage.reader.local_token import FILE, announce, withdraw
from heliograph.storage.reader.process import ALARM, ReaderProcess
from heliograph.storage.reader.security import ReaderSecurity
from heliograph.storage.reader.user_rights import Rights

_log = logging.getLogger(__name__)

_ANNOUNCE_AGAIN_US: Final = 3_600_000_000
_RIGHTS_AGAIN_US: Final = 2_000_000
# What callers must show, the certificate with its key, and the authorities of clients' certificates.
_Serving = tuple[ReaderSecurity, tuple[bytes, bytes] | None, bytes | None]

_DAMAGE_ALARM: Final = "stored_messages_damaged"


class ReaderPart(Part):
    """The process beside the node that serves bulk reads; owned by the node. `ReaderLaunch` has it load its modules.

    Where its settings change, or files that they name, another process takes its place: at another address it serves
    before the one before ends, at the same one behind it.

    Args:
        rights_of: What a user may read that a token names; asked again every few seconds.

    Attributes:
        programs: Starts the process.
    """

    name = "reader"
    metrics = metrics.READER
    needs = ("kernel", "reader_launch", "databases", "users", "authorization")
    roots = ("durable_storage.flight",)

    def __init__(
        self,
        config: Config,
        directory: DataDirectory,
        kernel: KernelPart,
        rights_of: Callable[[str], Awaitable[Rights | None]],
        launched: asyncio.subprocess.Process | None = None,
    ) -> None:
        self.programs = PROGRAMS
        self._rights_of = rights_of
        self._rights: dict[str, Rights | None] = {}  # by user
        self._rights_due_us = 0
        self._looking: asyncio.Task[None] | None = None
        self._launched = launched
        self._settings = config.durable_storage.flight
        self._directory = directory
        self._kernel = kernel
        self._announce_at_us = 0  # the node's own token to programs of its user
        self._damaged_places = 0
        self._damage_log = BoundedLog(_log, uptime_us)
        self._process: ReaderProcess | None = None
        self._serving: _Serving | None = None  # with what it serves
        self._replacing: set[asyncio.Task[None]] = set()

    @property
    def bind(self) -> str:
        """HOST:PORT that it serves on; known after the start."""
        return str(self._settings.bind) if self._process is None else self._process.bind

    @property
    def is_enabled(self) -> bool:
        return self._settings.enable

    @property
    def pid(self) -> int | None:
        return None if self._process is None else self._process.pid

    async def launch(self) -> None:
        if self._settings.enable:
            self._process = self._make(self._settings, str(self._settings.bind), self._launched)
            await self._process.launch()

    async def start(self) -> None:
        if self._process is not None:
            self._serving = self._read(self._settings)
            await self._look_at_rights()
            await self._process.start()
            self.tick(uptime_us())

    async def check(self, new: Config) -> Change | None:
        """`StorageError` if a file cannot be used, or nothing can be served at the new address."""
        settings = new.durable_storage.flight
        serving = self._read(settings) if settings.enable else None
        if settings == self._settings and serving == self._serving:
            return None
        process: ReaderProcess | None = None
        if settings.enable:
            is_same_place = self._process is not None and settings.bind == self._settings.bind
            process = self._make(settings, self.bind if is_same_place else str(settings.bind))
            await (process.launch() if is_same_place else process.start())

        def apply() -> None:
            self._use(settings, serving, process)

        return Change(apply, lambda: self._later(_end(process)))

    def _read(self, settings: FlightConfig) -> _Serving:
        security = reader_security(settings, self._directory.path)
        return security, security.certificate(), security.authorities()

    def _use(self, settings: FlightConfig, serving: _Serving | None, process: ReaderProcess | None) -> None:
        before, bind = self._process, self.bind
        self._settings, self._serving, self._process = settings, serving, process
        self._announce_at_us = self._rights_due_us = 0
        self._later(self._replace(before, bind, process))

    async def _replace(self, before: ReaderProcess | None, bind: str, process: ReaderProcess | None) -> None:
        if before is not None:
            if self.bind != bind or process is None:
                withdraw(bind, self._directory.path)
            await before.stop()
            self._kernel.alarms.deactivate(ALARM)  # which may say that it did not serve
        if process is not None and process is self._process and process.pid is None:
            process.begin()

    def _later(self, work: Coroutine[object, object, None]) -> None:
        task = asyncio.get_running_loop().create_task(work, name="storage-reader-replaced")
        self._replacing.add(task)
        task.add_done_callback(self._replacing.discard)

    def _make(
        self, settings: FlightConfig, bind: str, launched: asyncio.subprocess.Process | None = None
    ) -> ReaderProcess:
        data_dir = self._directory.path
        return ReaderProcess(
            data_dir,
            bind,
            security=partial(reader_security, settings, data_dir),
            on_damage=self._tell_damage,
            alarms=self._kernel.alarms,
            launched=launched,
            rights=lambda: self._rights,
            programs=self.programs,
        )

    async def _look_at_rights(self) -> None:
        users = {token.user for token in self._settings.tokens if token.user}
        found: dict[str, Rights | None] = {}
        for user in sorted(users):
            try:
                found[user] = await self._rights_of(user)
            except StorageError as error:
                _log.warning("what %r may read of stored messages is not known: %s", user, error)
                found[user] = None
        if found != self._rights:
            self._rights = found
            if self._process is not None:
                self._process.tell_rights()

    async def stop(self) -> None:
        if self._looking is not None:
            self._looking.cancel()
            await asyncio.gather(self._looking, return_exceptions=True)
        await asyncio.gather(*self._replacing, return_exceptions=True)
        if self._process is not None:
            withdraw(self.bind, self._directory.path)
            await self.end()

    async def end(self) -> None:
        await _end(self._process)

    def tick(self, uptime_us: int) -> None:
        """Let programs of this user find the node's own token, if the settings say so; again each hour."""
        is_idle = self._looking is None or self._looking.done()
        if self._process is not None and uptime_us >= self._rights_due_us and is_idle:
            self._rights_due_us = uptime_us + _RIGHTS_AGAIN_US
            if self._rights or any(token.user for token in self._settings.tokens):
                loop = asyncio.get_running_loop()
                self._looking = loop.create_task(self._look_at_rights(), name="storage-reader-rights")
        if self._process is None or uptime_us < self._announce_at_us:
            return
        self._announce_at_us = uptime_us + _ANNOUNCE_AGAIN_US
        if self._settings.tokens or self._settings.require_token != "auto":  # the file is of an earlier start
            withdraw(self.bind, self._directory.path)
            return
        try:
            announce(self.bind, self._directory.path)
        except OSError as error:
            _log.warning("clients of the storage reader must be given the token in %s: %s", FILE, error)

    def health(self) -> str:
        return "its process does not run" if self._process is not None and self._process.pid is None else ""

    def summary(self) -> str:
        return "" if self._process is None else f"storage reader in process {self._process.pid}"

    def places(self) -> Sequence[str]:
        return [] if self._process is None else [f"flight grpc://{self.bind}"]

    def samples(self) -> list[Sample]:
        counts = {} if self._process is None else self._process.statistics()
        return labelled("reader", {**counts, "damaged_places": self._damaged_places})

    def _tell_damage(self, damage: Mapping[str, object]) -> None:
        """Log what it found damaged, and raise an alarm until the node starts again."""
        text = (
            f"a reader of stored messages met damage in the database {damage['database']!r} "
            f"(stream {str(damage['stream'])!r}): {damage['problem']}. Stop the node and mend it with "
            f"`heliograph storage check --repair {damage['database']}`. {UNTIL_START}"
        )
        self._damaged_places += 1
        self._damage_log.write(logging.ERROR, "%s", text)
        self._kernel.alarms.activate(_DAMAGE_ALARM, text, damage)


class ReaderLaunch(Part):
    """Starts the process of the storage reader early: it loads its modules while the node opens databases.

    Most of the time of a start goes into loading modules, on one core for each of the two.
    """

    name = "reader_launch"
    needs = ("kernel",)

    def __init__(self, reader: ReaderPart) -> None:
        self._reader = reader

    async def start(self) -> None:
        await self._reader.launch()

    async def stop(self) -> None:
        """For a node that did not come so far as to have it serve."""
        await self._reader.end()


async def _end(process: ReaderProcess | None) -> None:
    if process is not None:
        await process.stop()
