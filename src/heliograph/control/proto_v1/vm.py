"""The process of a node: what is asked of it, and answers."""

from typing import Annotated

import msgspec

from heliograph.control.columns import Fact, Time
from heliograph.rpc.asks import ONE, Ask, ListAsk
from heliograph.rpc.methods import NoArgs


class VmLoad(msgspec.Struct, frozen=True):
    """What the process uses of its machine.

    Attributes:
        averages: Of the machine, over 1, 5 and 15 minutes.
        cores: Processors that it may use.
        user_s: Processor time so far, in its own code,
        system_s: and in the kernel.
        percent: Processor time a second of the time since the last one asked, or since the start; 100 is one core.
    """

    pid: int
    uptime_s: float
    averages: list[float]
    cores: int
    threads: int
    user_s: float
    system_s: float
    percent: float


class VmMemory(msgspec.Struct, frozen=True):
    """What the process holds in memory, in bytes.

    Attributes:
        used: Resident memory.
        limit: `node.memory_limit`; 0 for none.
        stage: Of the memory contract; 0 while memory is not short.
        held: By owner, as docs/memory.md has them.
    """

    used: int
    limit: Annotated[int, Fact(is_null_if_empty=True)]
    stage: int
    held: dict[str, int]


class VmIo(msgspec.Struct, frozen=True):
    """Open files, and what was read and written.

    Attributes:
        open_files: How many there are; -1 where the system does not say.
        open_files_max: How many there may be.
        read_bytes: From disks, since the start.
        written_bytes: To disks, since the start.
    """

    open_files: int
    open_files_max: int
    read_bytes: int
    written_bytes: int


class LoopBucket(msgspec.Struct, frozen=True):
    """Ticks that came so late at most.

    Attributes:
        at_most_s: Seconds; `+Inf` for all others.
        count: How many of them, those of smaller buckets left out.
    """

    at_most_s: str
    count: int


class VmLoop(msgspec.Struct, frozen=True):
    """How long turns of the event loop keep others waiting.

    Attributes:
        lag_s: How late the last tick came.
        longest_lag_s: The latest that one came since the start.
    """

    lag_s: float
    longest_lag_s: float
    ticks: list[LoopBucket]


class LongTurnRow(msgspec.Struct, frozen=True):
    """A row of `vm.turns`: a turn of the event loop that took long.

    Attributes:
        ended_at: When it ended, in microseconds since the epoch.
        ran: What was seen to run in it, the innermost call first; empty for nothing.
    """

    ended_at: Time
    seconds: float
    ran: str


VM_LOAD = Ask("vm.load", NoArgs, VmLoad, ONE, is_vital=True)
VM_MEMORY = Ask("vm.memory", NoArgs, VmMemory, ONE)
VM_IO = Ask("vm.io", NoArgs, VmIo, ONE)
VM_LOOP = Ask("vm.loop", NoArgs, VmLoop, ONE, is_vital=True)
VM_TURNS = ListAsk("vm.turns", NoArgs, LongTurnRow, ONE)
