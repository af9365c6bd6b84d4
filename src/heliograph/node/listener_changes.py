"""What another configuration makes of listeners: some change in place, some come, some leave, with what they listen on.

Everything that can fail happens while this is made: certificates are read and addresses bound beside the old ones. A
listener whose address is that of one that leaves takes its listening sockets over.
"""

import asyncio
import socket
from collections.abc import Callable, Mapping, Sequence

from heliograph.channel.context import ChannelContext
from heliograph.channel.options import ChannelOptions
from heliograph.config.listeners import ListenerConfig
from heliograph.transport.binding import check_options, close_sockets, serves_both
from heliograph.transport.errors import ListenerError
from heliograph.transport.listener import Listener
from heliograph.transport.peer_certificate import PeerIdentity

OptionsOf = Callable[[str, str, ListenerConfig], tuple[ChannelOptions, PeerIdentity]]
"""What the channels of a listener are given, and who its clients are by their certificates."""


class ListenerChanges:
    """Listeners that are ready to change; made by `prepare`, owned by the change of their part."""

    def __init__(self, present: Mapping[str, Listener]) -> None:
        self._present = present
        self._renewals: list[Callable[[], None]] = []
        self._after: dict[str, Listener] = {}
        self._heirs: dict[str, Listener] = {}  # whose sockets a listener takes over, by its name
        self.come: list[Listener] = []
        self.leave: list[Listener] = []

    async def prepare(
        self, wanted: Sequence[tuple[str, str, ListenerConfig]], options_of: OptionsOf, context: ChannelContext
    ) -> None:
        """Do all that can fail.

        Raises:
            ExceptionGroup: Every `ListenerError`; nothing is bound then.
        """
        errors: list[Exception] = []
        for kind, name, settings in wanted:
            try:
                self._sort(kind, name, settings, options_of, context)
            except ListenerError as error:
                errors.append(error)
        self.leave = [one for name, one in self._present.items() if self._after.get(name) is not one]
        try:
            for one in self.come:
                try:
                    await self._bind(one)
                except ListenerError as error:
                    errors.append(error)
        except asyncio.CancelledError:
            self.undo()
            raise
        if errors:
            self.undo()
            raise ExceptionGroup("the listeners cannot be used", errors)

    def apply(self) -> Mapping[str, Listener]:
        """The listeners from now on, by name (`tcp:default`). Those that leave have stopped accepting."""
        released = {one: one.release() for one in self.leave}
        for renew in self._renewals:
            renew()
        for name, one in self._after.items():
            heir_of = self._heirs.get(name)
            if heir_of is not None:
                one.begin(released.pop(heir_of))
            elif one in self.come and one.is_listening:
                one.begin()
        for left in released.values():
            close_sockets(left)
        return self._after

    def undo(self) -> None:
        for one in self.come:
            one.stop_accepting()

    def _sort(
        self, kind: str, name: str, settings: ListenerConfig, options_of: OptionsOf, context: ChannelContext
    ) -> None:
        key = f"{kind}:{name}"
        there = self._present.get(key)
        if there is not None and serves_both(there.settings, settings):
            self._renewals.append(there.prepare(settings, *options_of(kind, name, settings)))
            self._after[key] = there
        else:
            self._after[key] = made = Listener(kind, name, settings, context, *options_of(kind, name, settings))
            self.come.append(made)

    async def _bind(self, one: Listener) -> None:
        name, settings = f"{one.kind}:{one.name}", one.settings
        before = self._present.get(name)
        if before is not None and not before.is_listening:  # it was stopped, and stays so
            return
        taken = set(self._heirs.values())
        for left in self.leave:
            if left.is_listening and left not in taken and serves_both(left.settings, settings):
                check_options(f"listeners.{one.kind}.{one.name}", settings.tcp_options)
                self._heirs[name] = left
                return
        listening = [one for left in self.leave for one in left.sockets if one.family != socket.AF_UNIX]
        await one.bind(listening)
