"""The management process: hears its settings from the node, serves the API, ends with the node."""

import asyncio
import json
import logging
import os
import signal
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

import uvloop

from heliograph.config.management_settings import ManagementSettings, read_settings_line
from heliograph.management.api.areas import AREAS
from heliograph.management.api.unlisted import add_unlisted_paths
from heliograph.management.api.webhooks import add_webhooks
from heliograph.management.asking.nodes import Nodes
from heliograph.management.dashboard.page import add_dashboard
from heliograph.management.history.history import History
from heliograph.management.history.store import FILE, HistoryStore
from heliograph.management.live.hub import LiveHub
from heliograph.management.live.subjects import SUBJECTS
from heliograph.management.people.callers import PeopleCallers
from heliograph.management.prometheus.families import text_of
from heliograph.management.prometheus.pushing import Pusher
from heliograph.management.prometheus.scraping import NODE, STATS, Scrapes
from heliograph.management.telemetry.exporter import Exporter
from heliograph.management.web.app import make_app
from heliograph.management.web.refused_calls import RefusedCalls
from heliograph.management.web.server import WebServer
from heliograph.observe.bounded_log import BoundedLog
from heliograph.outbound import Outbound
from heliograph.processes.programs import PROGRAMS, Programs

_log = logging.getLogger(__name__)

_NICENESS: Final = 10  # where a core is short, clients of the node come before callers of the API


def main() -> int:
    """Run the process; 0 after an orderly end, 1 where it cannot serve."""
    os.nice(_NICENESS)
    # Ctrl-C in a terminal is for the node, which ends this process through its standard input: so it has a group of its
    # own, but no session. Linux shares a core among sessions first (`autogroup` in sched(7)): in one of its own, a low
    # priority would hold against its own threads only, and the node would wait behind it.
    if os.getpgrp() != os.getpid():
        os.setpgrp()
    # It may write to the terminal, in whose background it runs, whatever `stty tostop` says. The node cannot say so for
    # it: libuv resets the signals of a process that it starts.
    signal.signal(signal.SIGTTOU, signal.SIG_IGN)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s management: %(message)s")
    for name in ("httpx", "uvicorn"):
        logging.getLogger(name).setLevel(logging.WARNING)
    logging.getLogger("uvicorn.error").setLevel(logging.ERROR)  # it warns of each request that is no HTTP
    return uvloop.run(_run())


async def _run() -> int:
    loop = asyncio.get_running_loop()
    lines = asyncio.StreamReader(limit=1 << 20)
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    line = await lines.readline()
    if not line:
        return 0  # the node is gone already
    program = Program(read_settings_line(line), _say)
    try:
        await program.start()
        following = asyncio.create_task(program.follow(lines, stop), name="settings")
        await stop.wait()
        following.cancel()
    except OSError as error:
        _say({"failed": f"{error.strerror or error}"})
        return 1
    finally:
        await program.stop()
    return 0


class Program:
    """All that the process is made of; from `start` to `stop`.

    Args:
        say: Tells the node where the API is served, or why it is not.
        now_s: The wall clock, in seconds since the epoch. Whatever waits goes by the event loop's clock.
        programs: Starts processes.
    """

    def __init__(
        self,
        settings: ManagementSettings,
        say: Callable[[dict[str, object]], None],
        now_s: Callable[[], float] = time.time,
        programs: Programs = PROGRAMS,
    ) -> None:
        self._settings = settings
        self._say = say
        denials = BoundedLog(_log, lambda: time.monotonic_ns() // 1000)
        self._outbound = Outbound(settings.outbound, tell=lambda text: denials.warn("%s", text))
        self._nodes = Nodes(settings.node_name, Path(settings.data_dir))
        self._callers = PeopleCallers(settings, self._nodes, now_s, self._outbound)
        self._app = make_app(AREAS, settings, self._nodes, self._callers, programs, now_s)
        add_unlisted_paths(self._app)
        add_webhooks(self._app)
        add_dashboard(self._app)
        self._history = History(self._nodes, HistoryStore(Path(settings.data_dir) / "management" / FILE))
        self._scrapes = Scrapes()
        self._pusher = Pusher(settings.node_name, self._metrics_text, self._outbound)
        self._live = LiveHub(SUBJECTS, self._nodes)
        self._refused = self._app.state.refused = RefusedCalls(self._nodes)
        self._app.state.changed = asyncio.Event()
        self._app.state.live = self._live
        self._app.state.history = self._history
        self._app.state.jobs = {}  # by kind; made where they are first asked for
        self._app.state.scrapes = self._scrapes
        self._server = WebServer(self._app)
        self._exporter = Exporter(self._nodes.own(), self._outbound)

    async def start(self) -> None:
        """Begin to serve.

        Raises:
            OSError: An address or a file cannot be used.
        """
        self._callers.start()
        await self._server.use(self._settings.dashboard.listeners)
        self._history.start(self._settings.dashboard.sample_interval)
        await self._pusher.use(self._settings.prometheus.push)
        self._say({"serving": self._server.places})
        await self._exporter.use(self._settings.opentelemetry)

    async def stop(self) -> None:
        await self._exporter.stop()
        await self._live.stop()  # streams end by themselves only then
        await self._server.stop()
        await self._refused.stop()
        for jobs in self._app.state.jobs.values():
            await jobs.stop()
        await self._callers.stop()
        await self._pusher.stop()
        await self._scrapes.stop()
        await self._history.stop()
        self._nodes.close()

    async def follow(self, lines: asyncio.StreamReader, stop: asyncio.Event) -> None:
        """Take each change of the settings, until the node is gone."""
        try:
            while line := await lines.readline():
                await self._use(read_settings_line(line))
        finally:
            stop.set()

    async def _metrics_text(self) -> str:
        """What is pushed to a push gateway."""
        own = self._nodes.own()
        return text_of(await self._scrapes.scrape(STATS, [own], own, NODE))

    async def _use(self, settings: ManagementSettings) -> None:
        self._settings = self._app.state.settings = settings
        self._outbound.use(settings.outbound)
        self._callers.use(settings)
        self._app.state.changed.set()
        self._app.state.changed = asyncio.Event()
        self._history.use(settings.dashboard.sample_interval)
        await self._pusher.use(settings.prometheus.push)
        await self._exporter.use(settings.opentelemetry)
        try:
            await self._server.use(settings.dashboard.listeners)
        except OSError as error:
            self._say({"failed": f"{error.strerror or error}", "still": self._server.places})
            return
        self._say({"serving": self._server.places})


def _say(words: dict[str, object]) -> None:
    """Tell the node; one that is gone needs no telling, and the end of the standard input says so too."""
    with suppress(OSError):
        print(json.dumps(words), flush=True)  # noqa: T201 - the node reads it
