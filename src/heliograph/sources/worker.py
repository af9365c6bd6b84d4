"""Keeps one source connected: its sessions one after another, with a pause that doubles after each that failed."""

import asyncio
import contextlib
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Final

from heliograph.outbound import Outbound
from heliograph.processes.backoff import Backoff
from heliograph.sources.inlet import Deliver, Inlet
from heliograph.sources.interface import (
    CONNECTED,
    CONNECTING,
    DISCONNECTED,
    MessageSource,
    SourceEnvironment,
    SourceError,
)
from heliograph.sources.kinds import kind_of
from heliograph.sources.settings import OneSource

_log = logging.getLogger("heliograph.sources")

_AGAIN: Final = Backoff(first_s=0.5, longest_s=30.0)
_STEADY_S: Final = 10.0  # a session that lasted so long has worked: the next failure is the first again
_FORGET_S: Final = 5.0


class SourceWorker:
    """One source; owned by the process, from `start` to `stop`.

    Args:
        changed: Called when its status or reason is another.

    Attributes:
        status: `connected`, `connecting` or `disconnected`.
        reason: Why, where it is not connected.
    """

    def __init__(
        self,
        source_id: str,
        settings: OneSource,
        deliver: Deliver,
        changed: Callable[[], None],
        outbound: Outbound,
        directory: Path,
    ) -> None:
        self.source_id = source_id
        self.settings = settings
        self.status = CONNECTING
        self.reason = ""
        self._held = ""
        self._changed = changed
        self._hurried = asyncio.Event()
        self._inlet = Inlet(source_id, deliver, self._hold)
        self._around = SourceEnvironment(source_id, self._inlet, self._is_connected, outbound, directory)
        self._source: MessageSource | None = None
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        """Connect, and stay connected."""
        self._tasks = [
            asyncio.create_task(self._inlet.run(), name=f"{self.source_id} inlet"),
            asyncio.create_task(self._run(), name=self.source_id),
        ]

    async def stop(self, forget: bool = False) -> None:
        """End it; what was not acknowledged comes again.

        Args:
            forget: Whether it never comes back, so that nothing of it is to stay at the far side.
        """
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if forget and self._source is not None:
            try:
                async with asyncio.timeout(_FORGET_S):
                    await self._source.forget()
            except Exception as error:  # noqa: BLE001 - whatever a type does, the process serves its other sources
                _log.warning("%s: something may be left at the far side: %s", self.source_id, error)

    def hurry(self) -> None:
        """Connect now, instead of after the pause."""
        self._hurried.set()

    @property
    def shown(self) -> tuple[str, str]:
        """The status and the reason."""
        return self.status, self.reason or self._held

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        failures = 0
        while True:
            self._hurried.clear()
            if not failures:
                self._be(CONNECTING, self.reason)
            began = loop.time()
            reason = await self._session()
            failures = 1 if self.status == CONNECTED and loop.time() - began >= _STEADY_S else failures + 1
            pause_s = _AGAIN.pause_s(failures)
            self._be(DISCONNECTED, reason)
            _log.warning("%s: %s; again in %.1f s", self.source_id, reason, pause_s)
            await self._inlet.drop_unacknowledged()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._hurried.wait(), pause_s)

    async def _session(self) -> str:
        """Why it ended."""
        try:
            if self._source is None:
                self._source = kind_of(self.settings.kind)(self.settings.settings, self._around)
                self._inlet.server = self._source.server
            await self._source.session()
        except (SourceError, OSError, ValueError) as error:
            return str(error) or type(error).__name__
        except Exception as error:  # noqa: BLE001 - whatever a type does, its source is tried again
            _log.exception("%s", self.source_id)
            return f"{type(error).__name__}: {error}"
        return "the connection ended"

    def _is_connected(self) -> None:
        self._be(CONNECTED, "")

    def _be(self, status: str, reason: str) -> None:
        if (status, reason) != (self.status, self.reason):
            self.status, self.reason = status, reason
            self._changed()

    def _hold(self, why: str) -> None:
        if why != self._held:
            self._held = why
            if why:
                _log.warning("%s: its messages wait: %s", self.source_id, why)
            self._changed()

    def __repr__(self) -> str:
        return f"SourceWorker({self.source_id}, {self.status})"
