"""The history of disconnects as a part of a node."""

from collections.abc import Sequence

from heliograph.broker import hooks
from heliograph.broker.hook_order import LOG
from heliograph.config import Config
from heliograph.events.disconnects import DisconnectHistory
from heliograph.node.kernel import KernelPart
from heliograph.parts import Change, Hook, HookedPart


class DisconnectsPart(HookedPart):
    """Keeps who was disconnected lately and why; owned by the node.

    Attributes:
        history: The newest disconnects of all clients.
    """

    name = "disconnects"
    needs = ("kernel",)
    roots = ("broker.disconnect_history_size",)

    def __init__(self, config: Config, kernel: KernelPart) -> None:
        super().__init__(kernel.broker.hooks)
        self._size = config.broker.disconnect_history_size
        self.history = DisconnectHistory(self._size, lambda: int(kernel.broker.now_us))

    async def start(self) -> None:
        """Begin to keep them."""
        self.hook_in()

    async def check(self, new: Config) -> Change | None:
        """Another number of them."""
        size = new.broker.disconnect_history_size
        return None if size == self._size else Change(lambda: self._use(size))

    def wanted(self) -> Sequence[Hook]:
        """Nothing while none is kept."""
        return [Hook(hooks.CLIENT_DISCONNECTED, self.history.on_client_disconnected, LOG)] if self._size else []

    def _use(self, size: int) -> None:
        self._size = size
        self.history.resize(size)
        self.hook_in()
