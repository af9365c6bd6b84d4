"""A node on a simulated machine: how its process begins and ends, and who is connected to it."""

import random
from collections.abc import Callable
from typing import Final

from heliograph.config.settings import Config
from heliograph.node.data_dir import DataDirectory
from heliograph.node.databases import Databases
from heliograph.node.kernel import KernelPart
from heliograph.node.node import Node
from heliograph.node.options import channel_options
from heliograph.storage.columnar.database import LocalDatabase
from sim.machine import Machine
from sim.network import Connection, Host, Network

_LOOKS_US: Final = 10_000


class Broker:
    """What `heliograph start` makes of a configuration, on a machine.

    Args:
        machine: Where it runs.
        network: Where its clients connect.
        config: What it is started with.
        trace: Called with what happens, in words.

    Attributes:
        node: The node of the process; None while there is none.
        is_stopping: The process ends by itself.
        started_us: When it began, on the time of the simulation.
        counts: How often it was killed, lost its power and was stopped, and how many batches its disk never had.
    """

    def __init__(self, machine: Machine, network: Network, config: Config, trace: Callable[[str], None]) -> None:
        self.machine = machine
        self.network = network
        self._channel_options = channel_options(config, "default")
        self.node: Node | None = None
        self.is_stopping = False
        self.started_us = 0
        self.counts = {"kills": 0, "power cuts": 0, "stops": 0, "lost batches": 0}
        self._config = config
        self._trace = trace

    def connect(self, client: Host) -> Connection | None:
        """A new connection of a client, while the broker accepts any."""
        if self.node is None or self.is_stopping:
            return None
        return self.network.connect(client, self.node.parts.get(KernelPart).context, self._channel_options)

    @property
    def messages(self) -> LocalDatabase | None:
        """Its database of messages, while it is open."""
        if self.node is None or self.is_stopping:
            return None
        return self.node.parts.get(Databases).messages.database

    def start(self) -> None:
        """Begin a process, on a disk without faults."""
        self._trace("the node starts")
        machine = self.machine
        machine.disk.heal()
        with machine.running():
            node = Node(self._config)
            task = machine.loop.create_task(node.start())
            while not task.done():
                assert machine.loop.is_ready, f"a start waits for what does not come: {task.get_stack()}"
                machine.loop.turn()
        error = task.exception()
        if error is not None:
            _unlock(node)
            raise error
        self.node = node
        self.is_stopping = False
        self.started_us = machine.clock.us

    def kill(self, chance: random.Random, *, power: bool) -> None:
        """End the process at once, and with the power what its disk does not have yet."""
        self._trace("the power fails" if power else "the node is killed")
        self.counts["power cuts" if power else "kills"] += 1
        node = self.node
        lost = self._end_process(power=power)
        self._trace(f"the disk never had {lost} batches")
        self.counts["lost batches"] += lost
        if power:
            clock = self.machine.clock
            clock.booted_us = clock.us - chance.randrange(1, 10_000_000)
        if node is not None:
            _unlock(node)

    def stop(self) -> None:
        """Have the process end by itself."""
        assert self.node is not None
        self._trace("the node stops")
        self.is_stopping = True
        self.counts["stops"] += 1
        loop = self.machine.loop
        task = loop.create_task(self.node.stop())

        def look() -> None:
            if self.machine.loop is not loop:
                return  # it was killed meanwhile
            if not task.done():
                self.network.agenda.after(_LOOKS_US, look)
                return
            task.result()
            self._trace("the node has stopped")
            self._end_process(power=False)

        look()

    def close(self) -> None:
        """Nothing of it runs any more."""
        node = self.node
        self._end_process(power=False)
        if node is not None:
            _unlock(node)

    def _end_process(self, *, power: bool) -> int:
        self.node = None
        self.is_stopping = False
        self.machine.new_process()
        self.network.drop_all()
        return self.machine.disk.crash(power=power)


def _unlock(node: Node) -> None:
    """A process that is gone has no files open."""
    node.parts.get(DataDirectory).release()
