"""The list of what a node is made of, as its configuration says."""

import asyncio
from collections.abc import Callable

from heliograph.access.authorization import AuthorizationPart
from heliograph.access.parts import BansPart, FlappingPart
from heliograph.broker.pubsub import Broker
from heliograph.config import Config
from heliograph.events.sys_topics import Numbers
from heliograph.message_policies.parts import NodeInfo, TransformationPart, ValidationPart
from heliograph.node.client_log import ClientLogPart
from heliograph.node.clock import uptime_us
from heliograph.node.control import ControlPart
from heliograph.node.data_dir import DataDirectory
from heliograph.node.databases import CommitsPart, Databases
from heliograph.node.delayed import DelayedPart
from heliograph.node.durable_sessions import SessionsPart
from heliograph.node.event_messages import EventMessagesPart
from heliograph.node.kernel import KernelPart
from heliograph.node.known_clients import KnownClients
from heliograph.node.listeners import ListenersPart
from heliograph.node.log_part import LogPart
from heliograph.node.memory_part import MemoryPart
from heliograph.node.pipeline import PipelinePart
from heliograph.node.reader import ReaderLaunch, ReaderPart
from heliograph.node.retained import RetainedPart
from heliograph.node.rules import RulesPart
from heliograph.node.sparkplug import SparkplugPart
from heliograph.node.sys_topics import SysTopicsPart
from heliograph.node.ticker import Ticker
from heliograph.node.tracing import TracingPart
from heliograph.parts import Part, Parts
from heliograph.policies.parts import AutoSubscribePart, RewritePart
from heliograph.rules.parts import EnvironmentPart


def make_parts(
    config: Config,
    broker: Broker,
    all_parts: Callable[[], Parts],
    reader_process: asyncio.subprocess.Process | None = None,
) -> list[Part]:
    """The parts of a node, none of them started.

    Args:
        all_parts: What is made of them; asked when they have started.
        reader_process: The process of its storage reader, if that is launched already.
    """
    directory = DataDirectory(config)
    kernel = KernelPart(config, broker, directory)
    bans = BansPart(config, broker.hooks)
    databases = Databases(config, directory, kernel)
    delayed = DelayedPart(config, directory, kernel, bans, databases)
    environment = EnvironmentPart(config)
    listeners = ListenersPart(config, kernel, environment)
    reader = ReaderPart(config, directory, kernel, reader_process)
    return [
        LogPart(config),
        directory,
        kernel,
        ReaderLaunch(reader),
        bans,
        databases,
        CommitsPart(databases),
        delayed,
        environment,
        SessionsPart(config, directory, kernel, databases),
        RetainedPart(config, directory, kernel, databases),
        AuthorizationPart(config, broker),
        TracingPart(config, kernel),
        *make_policies(config, kernel, bans, environment, lambda names: all_parts().numbers(names)),
        RulesPart(config, kernel, environment, databases),
        MemoryPart(config, kernel, delayed, lambda: all_parts().samples("memory")),
        reader,
        listeners,
        Ticker(kernel, lambda now_us: all_parts().tick(now_us)),
        PipelinePart(config, directory, kernel, reader, listeners),
        ControlPart(config, directory, kernel, all_parts),
    ]


def make_policies(
    config: Config,
    kernel: KernelPart,
    bans: BansPart,
    environment: EnvironmentPart,
    numbers: Numbers,
    clock: Callable[[], int] = uptime_us,
) -> list[Part]:
    """What operators lay over topics and clients, and what the node tells of them: parts that are callbacks.

    Args:
        numbers: The values of some metrics by their names.
        clock: Microseconds on the monotonic clock.
    """
    broker = kernel.broker
    clients = KnownClients(config, kernel)
    node = NodeInfo(config.node.name, lambda clientid: kernel.context.channels.find_client(clientid))
    return [
        FlappingPart(config, broker.hooks, bans, clock),
        RewritePart(config, broker),
        AutoSubscribePart(config, broker, lambda clientid: kernel.context.channels.find(clientid), clock),
        clients,
        SysTopicsPart(config, kernel, clients, numbers),
        EventMessagesPart(config, kernel, clients),
        ClientLogPart(config, kernel),
        SparkplugPart(config, kernel, environment),
        ValidationPart(config, broker, environment, node),
        TransformationPart(config, broker, environment, node),
    ]
