"""What the backends of a node share, as a part of it."""

from collections.abc import Callable, Iterable

from heliograph.access.backends.live import METRICS, Backends
from heliograph.observe.alarms import Alarms
from heliograph.observe.metric import Sample
from heliograph.parts import Part


class BackendsPart(Part):
    """The alarms and numbers of the servers that authenticators and sources of authorization ask.

    Args:
        alarms: The alarms of the node, when it has started.

    Attributes:
        backends: Those that are in use; they are made, started and stopped by what asks them.
    """

    name = "backends"
    needs = ("kernel",)
    metrics = METRICS

    backends: Backends

    def __init__(self, alarms: Callable[[], Alarms]) -> None:
        self._alarms = alarms

    async def start(self) -> None:
        """Begin without any."""
        self.backends = Backends(self._alarms())

    def health(self) -> str:
        """Which backends are down, and why."""
        return self.backends.health()

    def samples(self) -> Iterable[Sample]:
        """Numbers named `backend.*`."""
        return self.backends.samples()
