"""The backends of a node that are in use, with their alarms and numbers, as a part of the node."""

import logging
import time
from collections.abc import Callable, Iterable
from typing import Final, Protocol

from heliograph.observe.alarms import Alarms
from heliograph.observe.bounded_log import BoundedLog
from heliograph.observe.metric import Metric, Sample, counter, gauge, histogram
from heliograph.outbound import Outbound
from heliograph.parts import Part

_log = logging.getLogger(__name__)
ALARM: Final = "backend_down"
_BACKEND: Final = ("backend",)
METRICS: Final[tuple[Metric, ...]] = (
    gauge("backend.connections", "Open connections to the server.", labels=_BACKEND),
    gauge("backend.waiting", "Questions that wait for a connection.", labels=_BACKEND),
    counter("backend.questions", "Questions that were asked, those that were refused included.", labels=_BACKEND),
    counter("backend.refused", "Questions not asked: server down, or too many wait.", labels=_BACKEND),
    counter("backend.failures", "Questions that ended with an error.", labels=_BACKEND),
    counter("backend.late", "Questions without an answer in time.", labels=_BACKEND),
    histogram("backend.latency", "Answers by the time that they took at most.", "seconds", labels=_BACKEND),
)


class LiveBackend(Protocol):
    name: str
    kind: str
    server: str

    def health(self) -> str: ...

    def samples(self) -> list[Sample]: ...


class Backends:
    """The backends that are started and not stopped; owned by the part `backends`.

    Two of one name may be there for a moment, while a new configuration replaces the old one: they share an alarm.

    Args:
        outbound: What opens their connections.
    """

    def __init__(self, alarms: Alarms, outbound: Outbound | None = None) -> None:
        self.outbound = outbound or Outbound()
        self._alarms = alarms
        self._live: list[LiveBackend] = []
        self._down: dict[str, LiveBackend] = {}  # by name: which one the alarm is about
        self._log = BoundedLog(_log, lambda: time.monotonic_ns() // 1000)

    def add(self, backend: LiveBackend) -> None:
        self._live.append(backend)

    def remove(self, backend: LiveBackend) -> None:
        """A backend has stopped: its alarm ends, unless another one of its name is down too."""
        self._live.remove(backend)
        if self._down.get(backend.name) is backend:
            self._end(backend)
            for other in self._live:
                if other.name == backend.name and other.health():
                    self.down(other, other.health())

    def down(self, backend: LiveBackend, why: str) -> None:
        if backend.name in self._down:
            return
        self._down[backend.name] = backend
        text = f"the backend {backend.name} ({backend.kind} at {backend.server}) is down: {why}"
        _log.warning("%s; questions to it are refused until it is back", text)
        details = {"name": backend.name, "kind": backend.kind, "server": backend.server, "why": why}
        self._alarms.activate(f"{ALARM}/{backend.name}", text, details)

    def up(self, backend: LiveBackend) -> None:
        if self._down.get(backend.name) is backend:
            self._end(backend)
            _log.warning("the backend %s (%s at %s) is back", backend.name, backend.kind, backend.server)

    def failed(self, what: str) -> None:
        """A question has no answer, though its backend is not down."""
        self._log.warn("%s", what)

    def health(self) -> str:
        return "; ".join(f"{name} is down: {backend.health()}" for name, backend in self._down.items())

    def samples(self) -> Iterable[Sample]:
        """Of two with one name, those of the newer one."""
        newest = {backend.name: backend for backend in self._live}
        for backend in newest.values():
            yield from backend.samples()

    def _end(self, backend: LiveBackend) -> None:
        del self._down[backend.name]
        self._alarms.deactivate(f"{ALARM}/{backend.name}")

    def __repr__(self) -> str:
        return f"Backends({', '.join(backend.name for backend in self._live) or 'none'})"


class BackendsPart(Part):
    """The alarms and numbers of the servers that authenticators and sources ask; those start and stop them."""

    name = "backends"
    needs = ("kernel",)
    metrics = METRICS

    backends: Backends

    def __init__(self, alarms: Callable[[], Alarms], outbound: Outbound | None = None) -> None:
        self._alarms = alarms
        self._outbound = outbound

    async def start(self) -> None:
        self.backends = Backends(self._alarms(), self._outbound)

    def health(self) -> str:
        return self.backends.health()

    def samples(self) -> Iterable[Sample]:
        return self.backends.samples()
