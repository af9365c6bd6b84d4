"""The memory contract as a part of a node."""

from collections.abc import Callable, Iterable, Iterator

from heliograph.config import Config
from heliograph.node.delayed import DelayedPart
from heliograph.node.kernel import KernelPart
from heliograph.node.memory import MemoryContract
from heliograph.node.memory_limit import limit_bytes
from heliograph.node.metrics.process import MEMORY
from heliograph.observe.metric import Sample
from heliograph.parts import Change, Part


class MemoryPart(Part):
    """Keeps the node within its memory; owned by the node.

    Args:
        others: The samples of all other parts, which say what they hold.
    """

    name = "memory"
    metrics = MEMORY
    needs = ("kernel", "delayed")
    roots = ("node.memory_limit",)

    contract: MemoryContract

    def __init__(
        self, config: Config, kernel: KernelPart, delayed: DelayedPart, others: Callable[[], Iterable[Sample | None]]
    ) -> None:
        self._limit = config.node.memory_limit
        self._kernel = kernel
        self._delayed = delayed
        self._others = others

    async def start(self) -> None:
        """Note what the process holds before the first client."""
        context = self._kernel.context
        self.contract = MemoryContract(
            limit_bytes(self._limit),
            context.broker,
            context.sessions,
            context.channels,
            self._delayed.messages,
            self._kernel.alarms,
            self._others,
        )

    async def check(self, new: Config) -> Change | None:
        """Another limit, from the next tick on."""
        setting = new.node.memory_limit
        if setting == self._limit:
            return None
        limit = limit_bytes(setting)

        def use() -> None:
            self._limit = setting
            self.contract.limit_to(limit)

        return Change(use)

    def tick(self, uptime_us: int) -> None:
        """Look at memory, and do what its stage asks for."""
        self.contract.tick()

    def samples(self) -> list[Sample]:
        """What the process has, and who holds it."""
        return self.contract.samples()

    def sample_pieces(self) -> Iterator[Sample | None]:
        """The same piece by piece: each connection is looked at."""
        return self.contract.sample_pieces()
