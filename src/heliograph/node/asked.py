"""What can be asked of the parts of a node: which objects of theirs the modules of `control` ask."""

from heliograph.control import alarms, clients, delayed, listeners, log, pipeline, retained, rules, storage, vm
from heliograph.control.storage import AskedDatabase
from heliograph.node.config_changes import ConfigChangesPart
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
from heliograph.observe.metric import Sample
from heliograph.parts import Parts
from heliograph.rpc.methods import Method


def methods_of_parts(parts: Parts) -> list[Method]:
    """What can be asked of parts that have started; one line for each module."""
    kernel = parts.get(KernelPart)
    return [
        *clients.methods(kernel.context),
        *listeners.methods(parts.get(ListenersPart), parts.get(ConfigChangesPart).manager),
        *alarms.methods(kernel.alarms),
        *log.methods(),
        *retained.methods(lambda: parts.get(RetainedPart).retainer),
        *delayed.methods(parts.get(DelayedPart).messages, kernel.broker),
        *rules.methods(parts.get(RulesPart).engine, kernel.broker),
        *vm.methods(parts.get(MemoryPart).contract, parts.get(Ticker).samples),
        *storage.methods(lambda: _databases(parts), lambda: _storage_samples(parts), parts.get(ReaderPart)),
        *pipeline.methods(lambda: parts.get(PipelinePart).process),
    ]


def _databases(parts: Parts) -> list[AskedDatabase]:
    return [AskedDatabase(one.database, one.health) for one in parts.get(Databases).stored]


def _storage_samples(parts: Parts) -> list[Sample]:
    """What those parts count that have a database."""
    storing = [part for part in parts.all() if any(metric in COMMITS for metric in part.metrics)]
    return [sample for part in storing for sample in part.samples()]
