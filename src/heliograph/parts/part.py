"""A part of a node: the interface between what a package brings and the program that starts and stops it."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

from heliograph.broker.hooks import Callback, Hooks, RewriteOnly
from heliograph.config.settings import Config
from heliograph.observe.metric import Metric, Sample
from heliograph.parts.changes import Change


class Part:
    """Something that a node starts, ticks and stops; owned by `Parts`.

    A part is made before anything runs: its constructor keeps what it is given and does nothing else. What it owns it
    makes in `start`, where the parts that it needs have started; theirs it reads from them then. All methods are called
    in the event loop and none may block it.

    Attributes:
        name: What logs, alarms and other parts know it by.
        needs: Names of the parts that start before it and stop after it; those that a node lacks are passed over.
        roots: The paths of the configuration that it is made of, with all below them; `*` is any name.
        metrics: What the numbers of `samples` are.
    """

    name: ClassVar[str]
    needs: ClassVar[Sequence[str]] = ()
    roots: ClassVar[Sequence[str]] = ()
    metrics: ClassVar[Sequence[Metric]] = ()

    async def start(self) -> None:
        """Begin to work. What it raises ends the start of the node, and everything that has started stops again."""

    async def stop(self) -> None:
        """End, and wait until all that it owns has ended. Also called where `start` raised, once."""

    def tick(self, uptime_us: int) -> None:
        """Do what is due; called twice a second between `start` and `stop`. The clock is monotonic."""

    async def check(self, new: Config) -> Change | None:
        """Make ready for another configuration, which differs from the present one in no setting that needs a restart.

        Called while the part runs, behind those that it needs, also where nothing of its own differs: files that
        settings name may have changed. It may wait, and the node works on meanwhile: what it makes ready must still be
        right when it is applied.

        Returns:
            What applies it, or undoes what was made ready. None: nothing is to be done.

        Raises:
            Exception: It cannot be applied; no part applies anything then. One with a `code` is the operator's to mend,
                an `ExceptionGroup` is several.
        """

    def health(self) -> str:
        """What keeps it from its work now, for people; empty while nothing does."""
        return ""

    def samples(self) -> Iterable[Sample]:
        """Its numbers, each of a metric that it declares; asked from its start on, and still after its stop."""
        return ()

    def sample_pieces(self) -> Iterator[Sample | None]:
        """The same piece by piece, for callers that yield in between; None: more work, no number.

        A part whose numbers take long to count brings its own.
        """
        yield from self.samples()

    def summary(self) -> str:
        """What it has, in a few words, for the log at the end of a start; empty for nothing that is worth a word."""
        return ""

    def places(self) -> Sequence[str]:
        """Where others reach it, each with what is spoken there: `mqtt tcp://127.0.0.1:1883`."""
        return ()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name})"


@dataclass(frozen=True, slots=True)
class Hook:
    """A callback and where it belongs; `wants` and `rewrite_only` as `hooks.HookPoint.add` takes them."""

    point: str
    callback: Callback
    priority: int
    wants: Callable[[str], bool] | None = None
    rewrite_only: RewriteOnly | None = None


class HookedPart(Part):
    """A part with callbacks, from its start to its stop."""

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
