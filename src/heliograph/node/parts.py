"""The list of what a node is made of, as its configuration says."""

import asyncio
from collections.abc import Callable, Iterable

from heliograph.access.authentication.interface import Surroundings
from heliograph.access.authentication.part import AuthenticationPart
from heliograph.access.authorization.interface import SourceSurroundings
from heliograph.access.authorization.part import AuthorizationPart
from heliograph.access.backends.live import BackendsPart
from heliograph.access.backends.node_cache import NodeCache
from heliograph.access.bans.address_limits import AddressLimitsPart
from heliograph.access.bans.known_logins import FILE as KNOWN_LOGINS
from heliograph.access.bans.parts import BansPart, FlappingPart
from heliograph.broker.pubsub import Broker
from heliograph.channel.operator_actions import kick
from heliograph.config.settings import Config
from heliograph.events.sys_topics import Numbers
from heliograph.message_policies.parts import NodeInfo, TransformationPart, ValidationPart
from heliograph.node.access_records import BuiltInRulesPart, StoredBansPart, UsersPart
from heliograph.node.action_runner import ActionRunnerPart
from heliograph.node.actions import ActionsPart
from heliograph.node.alarm_webhook import AlarmWebhookPart
from heliograph.node.backups import BackupsPart
from heliograph.node.client_log import ClientLogPart
from heliograph.node.clock import uptime_us
from heliograph.node.congestion import CongestionPart
from heliograph.node.control import ControlPart
from heliograph.node.data_dir import DataDirectory
from heliograph.node.databases import CommitsPart, Databases
from heliograph.node.delayed import DelayedPart
from heliograph.node.durable_sessions import SessionsPart
from heliograph.node.erasures import ErasuresPart
from heliograph.node.events import EventMessagesPart, KnownClients, SysTopicsPart
from heliograph.node.kernel import KernelPart
from heliograph.node.listeners import ListenersPart
from heliograph.node.log_part import LogPart
from heliograph.node.management import ManagementPart
from heliograph.node.memory import MemoryPart
from heliograph.node.message_ways import MessageWaysPart
from heliograph.node.opentelemetry import OpenTelemetryPart
from heliograph.node.outbound import OutboundPart
from heliograph.node.overload import OverloadPart
from heliograph.node.people import PeoplePart
from heliograph.node.pipeline import PipelinePart
from heliograph.node.reader import ReaderLaunch, ReaderPart
from heliograph.node.retained import RetainedPart
from heliograph.node.rules import RulesPart
from heliograph.node.sources import SourcesPart
from heliograph.node.sparkplug import SparkplugPart
from heliograph.node.statistics import DisconnectsPart, PeaksPart, SlowSubscriptionsPart, TopicMetricsPart
from heliograph.node.sysmon import SysmonPart
from heliograph.node.ticker import Ticker
from heliograph.node.tracing import TracingPart
from heliograph.observe.metric import Sample
from heliograph.outbound import Outbound
from heliograph.parts import Part, Parts
from heliograph.policies.parts import AutoSubscribePart, RewritePart
from heliograph.rules.parts import EnvironmentPart
from heliograph.storage.reader.user_rights import Rights


def make_parts(
    config: Config,
    broker: Broker,
    all_parts: Callable[[], Parts],
    reader_process: asyncio.subprocess.Process | None = None,
) -> list[Part]:
    """The parts of a node, none of them started.

    Args:
        all_parts: Gives all of them, when they have started.
    """
    directory = DataDirectory(config)
    kernel = KernelPart(config, broker, directory)
    bans = BansPart(config, broker.hooks)
    outbound = OutboundPart(config)
    databases = Databases(config, directory, kernel, outbound.outbound)
    delayed = DelayedPart(config, directory, kernel, bans, databases)
    environment = EnvironmentPart(config, outbound.outbound)
    listeners = ListenersPart(config, kernel, environment)
    backends = BackendsPart(lambda: kernel.alarms, outbound.outbound)
    users = UsersPart(config, directory, kernel)
    built_in_rules, authorization = make_authorization(config, directory, kernel, backends)

    async def readable(username: str) -> Rights | None:
        from heliograph.node.reader_rights import rights_of  # where a token of the reader names a user

        return await rights_of(username, users.users, authorization)

    rules = RulesPart(config, kernel, environment, databases)
    reader = ReaderPart(config, directory, kernel, readable, reader_process)

    def surroundings(chain: str, answers: NodeCache) -> Surroundings:
        return Surroundings(
            chain,
            users.users,
            users.passwords,
            backends.backends,
            answers,
            uptime_us,
            lambda: broker.now_us // 1_000_000,
        )

    return [
        LogPart(config),
        directory,
        kernel,
        outbound,
        ReaderLaunch(reader),
        bans,
        databases,
        CommitsPart(databases),
        BackupsPart(config, directory, kernel, databases, outbound.outbound),
        StoredBansPart(directory, kernel, bans),
        users,
        PeoplePart(config, directory),
        delayed,
        environment,
        *make_keepers(config, directory, kernel, databases, delayed),
        backends,
        AuthenticationPart(config, broker, surroundings, uptime_us),
        built_in_rules,
        authorization,
        *make_observers(config, directory, kernel, rules, all_parts),
        *make_policies(
            config, kernel, bans, environment, lambda names: all_parts().numbers(names), directory=directory
        ),
        rules,
        AlarmWebhookPart(config, kernel, outbound.outbound),
        *make_watchers(config, kernel, delayed, databases, listeners, lambda: all_parts().sample_pieces("memory")),
        reader,
        listeners,
        Ticker(kernel, lambda clock: all_parts().ticks(clock)),
        *make_pipeline(config, directory, kernel, databases, reader, listeners, rules, outbound.outbound),
        SourcesPart(config, directory, kernel, databases, rules),
        ControlPart(config, directory, kernel, all_parts),
        ManagementPart(config, directory, kernel),
    ]


def make_keepers(
    config: Config, directory: DataDirectory, kernel: KernelPart, databases: Databases, delayed: DelayedPart
) -> list[Part]:
    """What keeps sessions and retained messages, and what erases them."""
    sessions = SessionsPart(config, directory, kernel, databases)
    retained = RetainedPart(config, directory, kernel, databases)
    return [
        sessions,
        retained,
        ErasuresPart(directory, kernel, databases, delayed, sessions, lambda: retained.retainer),
    ]


def make_observers(
    config: Config, directory: DataDirectory, kernel: KernelPart, rules: RulesPart, all_parts: Callable[[], Parts]
) -> list[Part]:
    return [
        TracingPart(config, kernel, lambda: rules.engine),
        MessageWaysPart(config, directory, kernel, lambda: rules.engine),
        OpenTelemetryPart(config, directory, kernel, lambda: all_parts().get(AuthenticationPart)),
        SlowSubscriptionsPart(config, kernel),
        TopicMetricsPart(config, kernel),
        DisconnectsPart(config, kernel),
    ]


def make_watchers(
    config: Config,
    kernel: KernelPart,
    delayed: DelayedPart,
    databases: Databases,
    listeners: ListenersPart,
    others: Callable[[], Iterable[Sample | None]],
) -> list[Part]:
    """`others` gives the samples of all parts but that of memory; None stands for a piece of work without one."""
    memory = MemoryPart(config, kernel, delayed, others)
    sysmon = SysmonPart(config, kernel)
    return [
        sysmon,
        memory,
        OverloadPart(config, kernel, sysmon, memory, databases),
        CongestionPart(config, kernel, listeners),
    ]


def make_pipeline(
    config: Config,
    directory: DataDirectory,
    kernel: KernelPart,
    databases: Databases,
    reader: ReaderPart,
    listeners: ListenersPart,
    rules: RulesPart,
    outbound: Outbound,
) -> list[Part]:
    """What has the rows of rules leave the broker."""
    pipeline = PipelinePart(config, directory, kernel, databases, reader, listeners)
    runner = ActionRunnerPart(config, directory, kernel, databases, reader, listeners, rules)
    return [pipeline, runner, ActionsPart(config, kernel, pipeline, runner, outbound)]


def make_authorization(
    config: Config, directory: DataDirectory, kernel: KernelPart, backends: BackendsPart
) -> tuple[BuiltInRulesPart, AuthorizationPart]:
    built_in = BuiltInRulesPart(config, directory)

    def surroundings(answers: NodeCache) -> SourceSurroundings:
        return SourceSurroundings(backends.backends, uptime_us, answers, built_in.rules)

    return built_in, AuthorizationPart(config, kernel.broker, surroundings, uptime_us)


def make_policies(
    config: Config,
    kernel: KernelPart,
    bans: BansPart,
    environment: EnvironmentPart,
    numbers: Numbers,
    clock: Callable[[], int] = uptime_us,
    directory: DataDirectory | None = None,
) -> list[Part]:
    """What operators lay over topics and clients, and what the node reports about them: parts that are callbacks."""
    broker = kernel.broker
    clients = KnownClients(config, kernel)
    known_file = None if directory is None else directory.path / KNOWN_LOGINS

    def kick_later(clientid: str) -> None:
        kernel.context.defer(lambda: _kick(kernel, clientid))

    node = NodeInfo(config.node.name, lambda clientid: kernel.context.channels.find_client(clientid))
    return [
        AddressLimitsPart(config, broker.hooks, lambda: kernel.alarms, clock, known_file),
        FlappingPart(config, broker.hooks, bans, clock, kick_later),
        RewritePart(config, broker),
        AutoSubscribePart(config, broker, lambda clientid: kernel.context.channels.find(clientid), clock),
        clients,
        PeaksPart(numbers),
        SysTopicsPart(config, kernel, clients, numbers),
        EventMessagesPart(config, kernel, clients),
        ClientLogPart(config, kernel),
        SparkplugPart(config, kernel, environment),
        ValidationPart(config, broker, environment, node),
        TransformationPart(config, broker, environment, node),
    ]


def _kick(kernel: KernelPart, clientid: str) -> None:
    kick(kernel.context, clientid)
