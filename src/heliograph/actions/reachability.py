"""Whether the servers of connectors can be reached: each is connected to now and then, and nothing is said to it.

Who connects, and whether that is let in, only the pipeline finds out, and the test of a connection before it is saved.
"""

import asyncio
import contextlib
import os
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from heliograph.outbound import Dialer, Outbound

if TYPE_CHECKING:
    from heliograph.config.actions.interface import ConnectorConfig

CONNECTED: Final = "connected"
CONNECTING: Final = "connecting"
DISCONNECTED: Final = "disconnected"

_DISABLED: Final = "the connector is disabled"
_AT_ONCE_MAX: Final = 16  # so that many servers that do not answer cost few sockets


@dataclass(slots=True)
class _Reach:
    settings: "ConnectorConfig"
    status: str = CONNECTING
    reason: str = ""
    look_at_s: float = 0.0
    looking: asyncio.Task[None] | None = None


class Reachability:
    """The connectors of a node with what is known of them; owned by its part `actions`, in its event loop."""

    def __init__(self, clock_s: Callable[[], float], outbound: Outbound) -> None:
        self._clock_s = clock_s
        self._outbound = outbound
        self._known: dict[str, _Reach] = {}
        self._room = asyncio.Semaphore(_AT_ONCE_MAX)

    def use(self, connectors: Mapping[str, "ConnectorConfig"]) -> None:
        """Use these, as `http:my_connector`; an unchanged one keeps what is known of it."""
        for name in [name for name, reach in self._known.items() if connectors.get(name) != reach.settings]:
            self._forget(self._known.pop(name))
        for name, settings in connectors.items():
            if name not in self._known:
                self._known[name] = _Reach(settings)

    def tick(self) -> None:
        """Begin to look at those whose time has come."""
        now = self._clock_s()
        for name, reach in self._known.items():
            if reach.settings.enable and now >= reach.look_at_s:
                self._begin(name, reach)

    async def look(self, name: str) -> None:
        reach = self._known.get(name)
        if reach is not None and reach.settings.enable:
            await asyncio.wait([self._begin(name, reach)])

    def state(self, name: str) -> tuple[str, str]:
        reach = self._known.get(name)
        if reach is None:
            return DISCONNECTED, "there is no such connector"
        return (reach.status, reach.reason) if reach.settings.enable else (DISCONNECTED, _DISABLED)

    async def stop(self) -> None:
        looking = [reach.looking for reach in self._known.values() if reach.looking is not None]
        self.use({})
        if looking:
            await asyncio.wait(looking)

    def _begin(self, name: str, reach: _Reach) -> asyncio.Task[None]:
        if reach.looking is None or reach.looking.done():
            loop = asyncio.get_running_loop()
            reach.looking = loop.create_task(self._look(name, reach), name=f"connector-{name}")
            watched = reach.settings.resource_opts
            pause_s = watched.health_check_interval + random.uniform(0.0, watched.health_check_interval_jitter)
            reach.look_at_s = self._clock_s() + pause_s
        return reach.looking

    async def _look(self, name: str, reach: _Reach) -> None:
        dialer = self._outbound.dialer(f"connectors.{name.replace(':', '.', 1)}")
        async with self._room:
            reason = await unreachable_reason(reach.settings, dialer)
        reach.status, reach.reason = (DISCONNECTED, reason) if reason else (CONNECTED, "")

    @staticmethod
    def _forget(reach: _Reach) -> None:
        if reach.looking is not None:
            reach.looking.cancel()

    def __repr__(self) -> str:
        return f"Reachability({len(self._known)} connectors)"


async def unreachable_reason(connector: "ConnectorConfig", dialer: Dialer) -> str:
    """Why no server of a connector can be connected to; empty where one can, or where there is none."""
    problems = []
    timeout_s = min(connector.resource_opts.start_timeout, connector.resource_opts.health_check_timeout)
    for host, port in connector.addresses():
        problem = await _problem(dialer, host, port, timeout_s)
        if problem is None:
            return ""
        problems.append(f"{host}:{port}: {problem}")
    return "; ".join(problems)


async def _problem(dialer: Dialer, host: str, port: int, timeout_s: float) -> str | None:
    try:
        async with asyncio.timeout(timeout_s):
            _, writer = await dialer.open_connection(host, port)
    except TimeoutError:
        return f"no answer in {timeout_s:g} s"
    except ConnectionError as error:  # each event loop has words of its own for the same
        return os.strerror(error.errno) if error.errno else str(error)
    except OSError as error:
        return error.strerror or str(error)
    writer.close()
    with contextlib.suppress(OSError):  # it was reached, whatever it does then
        await writer.wait_closed()
    return None
