"""What can be asked of a node: which objects of its parts the modules of `control` ask. Loaded by the first asker."""

from typing import Final

from heliograph import __version__
from heliograph.access.parts import BansPart
from heliograph.control import (
    alarms,
    bans,
    broker,
    clients,
    conf,
    delayed,
    listeners,
    log,
    node,
    pipeline,
    retained,
    rules,
    storage,
    subscriptions,
    topics,
    trace,
    vm,
)
from heliograph.control.storage import AskedDatabase
from heliograph.node.clock import uptime_us
from heliograph.node.config_changes import ConfigChangesPart
from heliograph.node.data_dir import DataDirectory
from heliograph.node.databases import Databases
from heliograph.node.delayed import DelayedPart
from heliograph.node.kernel import KernelPart
from heliograph.node.listeners import ListenersPart
from heliograph.node.memory_part import MemoryPart
from heliograph.node.metrics.storage import COMMITS
from heliograph.node.pipeline import PipelinePart
from heliograph.node.reader import ReaderPart
from heliograph.node.retained import RetainedPart
from heliograph.node.rules import RulesPart
from heliograph.node.ticker import Ticker
from heliograph.node.tracing import TracingPart
from heliograph.observe.metric import Sample
from heliograph.parts import Parts
from heliograph.rpc.methods import Method
from heliograph.rpc.server import RpcServer

_SECOND_US: Final = 1_000_000
_LATE_S: Final = 1.0  # a loop that is so late has no time for what is not vital


def make_server(parts: Parts, name: str, ready_us: int) -> RpcServer:
    """The server of a node whose parts have started; it is not started.

    Args:
        name: The name of the node.
        ready_us: Since when it is ready, in microseconds on the monotonic clock.
    """
    faults = parts.get(KernelPart).broker.faults
    return RpcServer(
        methods_of(parts, name, ready_us),
        f"heliograph {__version__} ({name})",
        "control socket",
        on_fault=lambda method, error: faults.contain(f"control.{method}", error),
        overload=lambda: _overload(parts.get(Ticker).lag_s),
        audit=parts.get(ConfigChangesPart).audit,
    )


def methods_of(parts: Parts, name: str, ready_us: int) -> list[Method]:
    """All that can be asked; one line for each module of `control`."""
    kernel = parts.get(KernelPart)
    manager = parts.get(ConfigChangesPart).manager

    def uptime_s() -> int:
        return (uptime_us() - ready_us) // _SECOND_US

    return [
        *([] if manager is None else conf.methods(manager)),
        *node.methods(name, parts, kernel.context, kernel.alarms, uptime_s),
        *trace.methods(lambda: parts.get(TracingPart).traces),
        *broker.methods(parts, kernel.clock.now_us, uptime_s),
        *clients.methods(kernel.context),
        *subscriptions.methods(kernel.context),
        *topics.methods(kernel.context),
        *bans.methods(parts.get(BansPart).bans, kernel.context),
        *listeners.methods(parts.get(ListenersPart), manager),
        *alarms.methods(kernel.alarms),
        *log.methods(),
        *retained.methods(lambda: parts.get(RetainedPart).retainer),
        *delayed.methods(parts.get(DelayedPart).messages, kernel.broker),
        *rules.methods(parts.get(RulesPart).engine, kernel.broker),
        *vm.methods(parts.get(MemoryPart).contract, parts.get(Ticker).samples, uptime_s),
        *storage.methods(
            parts.get(DataDirectory).path,
            lambda: _databases(parts),
            lambda: _storage_samples(parts),
            parts.health,
            parts.get(ReaderPart),
        ),
        *pipeline.methods(lambda: parts.get(PipelinePart).process),
    ]


def _overload(late_s: float) -> str:
    return f"the event loop is {late_s:.1f} s late" if late_s > _LATE_S else ""


def _databases(parts: Parts) -> list[AskedDatabase]:
    return [AskedDatabase(one.database, one.health) for one in parts.get(Databases).stored]


def _storage_samples(parts: Parts) -> list[Sample]:
    """What those parts count that have a database."""
    storing = [part for part in parts.all() if any(metric in COMMITS for metric in part.metrics)]
    return [sample for part in storing for sample in part.samples()]
