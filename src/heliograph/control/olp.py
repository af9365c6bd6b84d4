"""What can be asked of protection against overload, and its switch."""

from collections.abc import Mapping
from typing import Protocol

from heliograph.config_changes.edits import Edit
from heliograph.config_changes.manager import ConfigManager
from heliograph.config_changes.terms import Terms
from heliograph.control.conf import answered, author_of
from heliograph.control.proto_v1 import olp as proto
from heliograph.rpc.methods import Call, Method, NoArgs, RpcError


class Measured(Protocol):
    """One measurement."""

    @property
    def value(self) -> float:
        """Seconds or percent."""

    @property
    def threshold(self) -> float:
        """Where it is too much."""

    @property
    def unit(self) -> str:
        """`s` or `%`."""


class OverloadGuard(Protocol):
    """What measures and sheds; `node.overload` implements it."""

    @property
    def readings(self) -> Mapping[str, Measured]:
        """What was measured last."""

    @property
    def stage(self) -> int:
        """How much is shed; 0 while the node is not overloaded."""

    @property
    def is_enabled(self) -> bool:
        """Whether anything may be shed."""

    @property
    def sheds(self) -> list[str]:
        """What is shed now, in words."""

    def shed_counts(self) -> dict[str, int]:
        """What was shed since the start."""


def methods(name: str, guard: OverloadGuard, manager: ConfigManager | None) -> list[Method]:
    """What can be asked: `olp.status`, `olp.enable`, `olp.disable`; also while the node sheds requests.

    The manager writes changes into the audit log itself.

    Args:
        name: The name of the node.
        manager: What changes the configuration; None where it is a program's.
    """
    answers = OlpAnswers(name, guard, manager)
    return [
        proto.OLP_STATUS.by(answers.status),
        proto.OLP_ENABLE.by(answers.enable),
        proto.OLP_DISABLE.by(answers.disable),
    ]


class OlpAnswers:
    def __init__(self, name: str, guard: OverloadGuard, manager: ConfigManager | None) -> None:
        self._name = name
        self._guard = guard
        self._manager = manager

    def status(self, args: NoArgs, call: Call) -> proto.OverloadStatus:
        guard = self._guard
        readings = [
            proto.OverloadReading(name, round(one.value, 3), one.threshold, one.unit)
            for name, one in guard.readings.items()
        ]
        return proto.OverloadStatus(
            self._name, guard.is_enabled, guard.stage > 0, guard.stage, guard.sheds, readings, guard.shed_counts()
        )

    async def enable(self, args: NoArgs, call: Call) -> proto.OverloadSwitched:
        return await self._switch(True, call)

    async def disable(self, args: NoArgs, call: Call) -> proto.OverloadSwitched:
        """Answer `olp.disable`: shed nothing, but in zones that say otherwise."""
        return await self._switch(False, call)

    async def _switch(self, is_enabled: bool, call: Call) -> proto.OverloadSwitched:
        manager = self._manager
        if manager is None:
            raise RpcError("not_enabled", "the configuration of this node is a program's, which switches it")
        word = "enabled" if is_enabled else "disabled"
        edit = Edit(values=[("overload_protection.enable", str(is_enabled).lower())])
        terms = Terms(revision=manager.revision, comment=f"overload protection is {word}")
        outcome = await answered(manager.change(edit, author_of(call), terms))
        return proto.OverloadSwitched(is_enabled, outcome.revision)
