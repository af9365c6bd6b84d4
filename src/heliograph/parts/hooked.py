"""A part that works through callbacks of hook points, of which it adds those that its settings ask for."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from heliograph.broker.hooks import Callback, Hooks, RewriteOnly
from heliograph.parts.part import Part


@dataclass(frozen=True, slots=True)
class Hook:
    """A callback and where it belongs; `wants` and `rewrite_only` as `hooks.HookPoint.add` takes them."""

    point: str
    callback: Callback
    priority: int
    wants: Callable[[str], bool] | None = None
    rewrite_only: RewriteOnly | None = None


class HookedPart(Part):
    """A part with callbacks, from its start to its stop.

    Args:
        hooks: The hook points of the broker.
    """

    def __init__(self, hooks: Hooks) -> None:
        self._hooks = hooks
        self._hooked: Sequence[Hook] = ()

    def wanted(self) -> Sequence[Hook]:
        """The callbacks that its settings ask for; what they do not ask for costs nothing."""
        raise NotImplementedError

    def hook_in(self) -> None:
        """Add the callbacks that are wanted now, in the place of those that were wanted before."""
        self._take_out()
        self._hooked = self.wanted()
        for hook in self._hooked:
            self._hooks.point(hook.point).add(hook.callback, hook.priority, hook.wants, hook.rewrite_only)

    async def stop(self) -> None:
        """Take every callback out again."""
        self._take_out()

    def _take_out(self) -> None:
        for hook in self._hooked:
            self._hooks.point(hook.point).remove(hook.callback)
        self._hooked = ()
