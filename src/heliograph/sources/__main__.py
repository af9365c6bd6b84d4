"""The process of sources: `python -m heliograph.sources FILE`; `--check FILE` tries the sources of a file once.

The file has its settings, see `heliograph.sources.settings`. The node writes lines to its standard input: `settings`
when the file has changed, `again` when a person asks for another try. The end of the input is the end of the process.
"""

import asyncio
import logging
import os
import signal
import sys
from pathlib import Path
from typing import Final

import uvloop

from heliograph.control.proto_v1.sources import (
    SOURCES_DELIVER,
    SOURCES_REPORT,
    Delivered,
    ReportedSource,
    SourceBatch,
    SourceStates,
)
from heliograph.observe.side_log import log_to_stderr
from heliograph.outbound import Outbound
from heliograph.rpc.async_client import IN_FLIGHT_MAX, AsyncRpcClient
from heliograph.rpc.conversation import UnreachableError
from heliograph.rpc.methods import RpcError
from heliograph.sources.inlet import Inlet
from heliograph.sources.interface import SourceEnvironment, SourceError
from heliograph.sources.kinds import kind_of
from heliograph.sources.settings import SourcesFile, outbound_of, read_file
from heliograph.sources.worker import SourceWorker

_log = logging.getLogger("heliograph.sources")

CHECK: Final = "--check"
LOG_FILE: Final = "sources.log"
_DELIVER_S: Final = 60.0
_REPORT_S: Final = 10.0
_AGAIN_S: Final = 0.5


class NodeLink:
    """The connection to the node; owned by the process. It is made again when it was lost."""

    def __init__(self, socket: Path) -> None:
        self._socket = socket
        self._client: AsyncRpcClient | None = None
        self._connecting = asyncio.Lock()
        self._room = asyncio.Semaphore(IN_FLIGHT_MAX - 1)  # and one report

    async def deliver(self, batch: SourceBatch) -> Delivered:
        """Raises `RpcError` or `UnreachableError`."""
        async with self._room:
            return await (await self._connected()).ask(SOURCES_DELIVER(batch), timeout_s=_DELIVER_S)

    async def report(self, states: SourceStates) -> None:
        """Raises `RpcError` or `UnreachableError`."""
        await (await self._connected()).ask(SOURCES_REPORT(states), timeout_s=_REPORT_S)

    async def _connected(self) -> AsyncRpcClient:
        async with self._connecting:
            if self._client is None or self._client.is_lost:
                self._client = await AsyncRpcClient.connect(self._socket, "heliograph sources")
            return self._client

    def close(self) -> None:
        """End it."""
        if self._client is not None:
            self._client.close()


class SourcesProcess:
    """The sources of one node; owned by the process."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._settings = read_file(file)
        self._outbound = Outbound(outbound_of(self._settings.outbound))
        self._node = NodeLink(Path(self._settings.socket))
        self._workers: dict[str, SourceWorker] = {}
        self._changed = asyncio.Event()
        self._ending = asyncio.Event()

    def __repr__(self) -> str:
        return f"SourcesProcess({', '.join(self._workers)})"

    async def run(self) -> None:
        """Run until the input ends, or the process is asked to."""
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGTERM, self._ending.set)
        loop.add_signal_handler(signal.SIGINT, lambda: None)  # the node ends it
        await self._use(self._settings)
        tasks = [asyncio.create_task(self._read_input()), asyncio.create_task(self._report())]
        await self._ending.wait()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        kept = self._kept_at_the_end()
        await asyncio.gather(*(worker.stop(worker.source_id not in kept) for worker in self._workers.values()))
        self._node.close()

    def _kept_at_the_end(self) -> set[str]:
        """The sources that are there still: where the last ones are deleted, this ends with them."""
        try:
            settings = read_file(self._file)
        except (OSError, ValueError):
            return {*self._workers}
        return {*settings.sources, *settings.paused}

    async def _read_input(self) -> None:
        reader = asyncio.StreamReader()
        loop = asyncio.get_running_loop()
        await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
        while line := await reader.readline():
            word = line.decode().strip()
            if word == "settings":
                await self._use_file()
            elif word == "again":
                for worker in self._workers.values():
                    worker.hurry()
        self._ending.set()

    async def _use_file(self) -> None:
        try:
            settings = read_file(self._file)
            self._outbound.use(outbound_of(settings.outbound))
        except (OSError, ValueError) as error:
            _log.error("the changed sources are not used: %s", error)
            return
        await self._use(settings)

    async def _use(self, settings: SourcesFile) -> None:
        self._settings = settings
        wanted = settings.sources
        kept = {*wanted, *settings.paused}
        leaving = [worker for name, worker in self._workers.items() if wanted.get(name) != worker.settings]
        await asyncio.gather(*(worker.stop(worker.source_id not in kept) for worker in leaving))
        for worker in leaving:
            del self._workers[worker.source_id]
        for name, one in wanted.items():
            if name not in self._workers:
                self._workers[name] = worker = SourceWorker(
                    name, one, self._node.deliver, self._changed.set, self._outbound, self._file.parent
                )
                worker.start()
        self._changed.set()

    async def _report(self) -> None:
        """Tell the node each change, until it has taken the newest."""
        while True:
            await self._changed.wait()
            self._changed.clear()
            states = [ReportedSource(name, *worker.shown) for name, worker in self._workers.items()]
            try:
                await self._node.report(SourceStates(os.getpid(), states))
            except (RpcError, UnreachableError) as error:
                _log.warning("the node does not learn how its sources are: %s", error)
                self._changed.set()
                await asyncio.sleep(_AGAIN_S)  # the node may be starting


async def check(file: Path) -> int:
    """Print why nothing can come by a source; the exit code is 2 then."""
    settings = read_file(file)
    outbound = Outbound(outbound_of(settings.outbound), tell=lambda text: None)
    for name, one in settings.sources.items():
        inlet = Inlet(name, _take_nothing, lambda why: None)
        try:
            await kind_of(one.kind)(
                one.settings, SourceEnvironment(name, inlet, lambda: None, outbound, file.parent)
            ).check()
        except (SourceError, OSError, ValueError) as error:
            sys.stderr.write(f"{error}\n")
            return 2
    return 0


async def _take_nothing(batch: SourceBatch) -> Delivered:
    return Delivered(0, [], "this is a test")


def main(file: str) -> None:
    """Run the sources of a file."""
    log_to_stderr(Path(file).with_name(LOG_FILE))

    async def run() -> None:
        await SourcesProcess(Path(file)).run()

    uvloop.run(run())


if __name__ == "__main__":
    if sys.argv[1] == CHECK:
        sys.exit(asyncio.run(check(Path(sys.argv[2]))))
    main(sys.argv[1])
