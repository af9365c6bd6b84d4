"""What can be asked of the listeners of a node, and done with them."""

from collections.abc import Iterator, Sequence
from typing import Protocol

from heliograph.config_changes.edits import Edit
from heliograph.config_changes.manager import ConfigManager
from heliograph.config_changes.terms import Author, Terms
from heliograph.control.configured import LISTENERS, ConfiguredGroups
from heliograph.control.proto_v1 import groups as groups_proto
from heliograph.control.proto_v1 import listeners as proto
from heliograph.control.slices import in_slices
from heliograph.rpc.methods import Call, Method, NoArgs, RpcError
from heliograph.transport.listener import Listener


class AskedListeners(Protocol):
    """The listeners of a node; `node.listeners` implements it. Names are as `tcp:default`."""

    @property
    def listeners(self) -> Sequence[Listener]:
        """Those that are enabled, also while they do not listen."""

    async def start_listener(self, name: str) -> bool:
        """Start one that was stopped; False if it accepts connections."""

    def stop_listener(self, name: str) -> bool:
        """Stop one, and end its connections; False if it was stopped."""

    def restart_listener(self, name: str) -> None:
        """Restart one, and end its connections."""


def methods(listeners: AskedListeners, manager: ConfigManager | None) -> list[Method]:
    """What can be asked: `listeners.list`, `start`, `stop`, `restart`, `put` and `delete`, and `certificates.reload`.

    The manager writes what it is asked for into the audit log itself.

    Args:
        manager: What reads the files again that settings name; None where nothing does.
    """
    answers = ListenersAnswers(listeners, manager)
    return [
        proto.LISTENERS_LIST.by(answers.list),
        proto.LISTENERS_START.by(answers.start),
        proto.LISTENERS_STOP.by(answers.stop),
        proto.LISTENERS_RESTART.by(answers.restart),
        proto.CERTIFICATES_RELOAD.by(answers.reload),
        *([] if manager is None else ConfiguredGroups(manager, LISTENERS).methods(groups_proto.LISTENERS)),
    ]


class ListenersAnswers:
    """Answers what is asked of listeners; owned by the control socket.

    Args:
        manager: What reads the files again that settings name; None where nothing does.
    """

    def __init__(self, listeners: AskedListeners, manager: ConfigManager | None) -> None:
        self._listeners = listeners
        self._manager = manager

    def list(self, args: NoArgs, call: Call) -> Iterator[Sequence[proto.ListenerRow]]:
        """Answer `listeners.list`: those that are enabled, also while they are stopped."""
        return in_slices(_row(one) for one in self._listeners.listeners)

    async def start(self, args: proto.ListenerName, call: Call) -> proto.ListenerChanged:
        return proto.ListenerChanged(args.id, True, await self._listeners.start_listener(args.id))

    def stop(self, args: proto.ListenerName, call: Call) -> proto.ListenerChanged:
        """Answer `listeners.stop`: stop accepting, and end connections."""
        return proto.ListenerChanged(args.id, False, self._listeners.stop_listener(args.id))

    def restart(self, args: proto.ListenerName, call: Call) -> proto.ListenerChanged:
        """Answer `listeners.restart`: restart a listener, and end its connections."""
        self._listeners.restart_listener(args.id)
        return proto.ListenerChanged(args.id, True, True)

    async def reload(self, args: NoArgs, call: Call) -> proto.CertificatesRead:
        """Answer `certificates.reload`: read the files again that settings name, and nothing else."""
        manager = self._manager
        if manager is None:
            raise RpcError("not_enabled", "the configuration of this node is a program's, which reads files again")
        # A change of nothing: every part makes ready what it has, for which it reads its files.
        await manager.change(Edit(), Author(call.who, call.origin), Terms(comment="certificates are read again"))
        with_tls = [one for one in self._listeners.listeners if one.kind in ("ssl", "wss")]
        return proto.CertificatesRead([f"{one.kind}:{one.name}" for one in with_tls])


def _row(one: Listener) -> proto.ListenerRow:
    counts = one.statistics()
    return proto.ListenerRow(
        f"{one.kind}:{one.name}",
        one.address,
        one.is_listening,
        counts["current_connections"],
        one.settings.max_connections,
        one.settings.zone,
        counts,
    )
