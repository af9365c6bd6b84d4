"""What can be asked of a node: which objects of its parts the modules of `control` ask. Loaded by the first asker."""

from collections.abc import Callable
from typing import Final

from heliograph import __version__
from heliograph.access.authentication.part import AuthenticationPart
from heliograph.access.authorization.part import AuthorizationPart
from heliograph.access.bans.address_limits import AddressLimitsPart
from heliograph.access.bans.parts import BansPart
from heliograph.channel.context import ChannelContext
from heliograph.config_changes.manager import ConfigManager
from heliograph.control import (
    acl,
    actions,
    alarms,
    audit,
    authn,
    authorization,
    backups,
    bans,
    broker,
    client_actions,
    client_ranks,
    clients,
    conf,
    configured_sources,
    delayed,
    erasure,
    fallbacks,
    listeners,
    live,
    log,
    logins,
    message_replays,
    message_ways,
    messages,
    metrics,
    node,
    olp,
    opentelemetry,
    people,
    pipeline,
    policies,
    refusals,
    replays,
    retained,
    rule_language,
    rules,
    slow_subscriptions,
    sources,
    storage,
    subscriptions,
    tail,
    topic_metrics,
    topic_tree,
    topics,
    trace,
    users,
    vm,
)
from heliograph.control.configured import SCHEMA_REGISTRIES, SCHEMAS, ConfiguredGroups
from heliograph.control.proto_v1 import groups
from heliograph.control.storage import AskedDatabase, database_of
from heliograph.control.user_targets import UserTargets
from heliograph.message_policies.parts import TransformationPart, ValidationPart
from heliograph.message_policies.transformation import MessageTransformation
from heliograph.message_policies.validation import SchemaValidation
from heliograph.node.access_records import BuiltInRulesPart, UsersPart
from heliograph.node.action_runner import ActionRunnerPart
from heliograph.node.actions import ActionsPart
from heliograph.node.backups import BackupsPart
from heliograph.node.clock import uptime_us
from heliograph.node.config_changes import ConfigChangesPart
from heliograph.node.data_dir import DataDirectory
from heliograph.node.databases import Databases
from heliograph.node.delayed import DelayedPart
from heliograph.node.erasures import ErasuresPart
from heliograph.node.kernel import KernelPart
from heliograph.node.listeners import ListenersPart
from heliograph.node.log_part import LogPart
from heliograph.node.memory import MemoryPart
from heliograph.node.message_ways import MessageWaysPart
from heliograph.node.metrics.storage import COMMITS
from heliograph.node.opentelemetry import OpenTelemetryPart
from heliograph.node.overload import OverloadPart
from heliograph.node.people import PeoplePart
from heliograph.node.pipeline import PipelinePart
from heliograph.node.pipeline_tools import PipelineTools
from heliograph.node.reader import ReaderPart
from heliograph.node.retained import RetainedPart
from heliograph.node.rules import RulesPart
from heliograph.node.sources import SourcesPart
from heliograph.node.statistics import DisconnectsPart, SlowSubscriptionsPart, TopicMetricsPart
from heliograph.node.sysmon import SysmonPart
from heliograph.node.ticker import Ticker
from heliograph.node.tracing import TracingPart
from heliograph.observe.metric import Sample
from heliograph.parts import Parts
from heliograph.rpc.methods import Method
from heliograph.rpc.server import RpcServer
from heliograph.rules.parts import EnvironmentPart

_SECOND_US: Final = 1_000_000
_LATE_S: Final = 1.0  # a loop that is so late from tick to tick has no time for what is not vital


def make_server(parts: Parts, name: str, ready_us: int) -> RpcServer:
    """The server of a node whose parts have started, not started itself; `ready_us` is on the monotonic clock."""
    faults = parts.get(KernelPart).broker.faults
    return RpcServer(
        methods_of(parts, name, ready_us),
        f"heliograph {__version__} ({name})",
        "control socket",
        on_fault=lambda method, error: faults.contain(f"control.{method}", error),
        overload=lambda: _overload(parts.get(Ticker).lag.lasting_s) or parts.get(OverloadPart).refusal(),
        audit=parts.get(ConfigChangesPart).audit,
    )


def methods_of(parts: Parts, name: str, ready_us: int) -> list[Method]:
    kernel = parts.get(KernelPart)
    manager = parts.get(ConfigChangesPart).manager

    troubles = refusals.ClientTroubles(parts.get(BansPart).bans, kernel.context)

    def uptime_s() -> int:
        return (uptime_us() - ready_us) // _SECOND_US

    return [
        *([] if manager is None else conf.methods(manager)),
        *audit.methods(parts.get(ConfigChangesPart).audit),
        *node.methods(name, parts, kernel.context, kernel.alarms, uptime_s),
        *trace.methods(lambda: parts.get(TracingPart).traces),
        *message_ways.methods(parts.get(MessageWaysPart), kernel.context, troubles),
        *opentelemetry.methods(parts.get(OpenTelemetryPart)),
        *broker.methods(parts, kernel.clock.now_us, uptime_s),
        *metrics.methods(parts),
        *troubles.methods(),
        *_of_clients(parts, kernel.context, troubles),
        *([] if manager is None else authn.methods(parts.get(AuthenticationPart), manager)),
        *logins.methods(parts.get(AddressLimitsPart).gate.logins, uptime_us),
        *bans.methods(parts.get(BansPart).bans, kernel.context),
        *people.methods(parts.get(PeoplePart).people, parts.get(PeoplePart).now_s),
        *acl.methods(parts.get(BuiltInRulesPart).rules, parts.get(AuthorizationPart)),
        *authorization.methods(parts.get(AuthorizationPart), kernel.context, manager, troubles),
        *listeners.methods(parts.get(ListenersPart), manager),
        *alarms.methods(kernel.alarms),
        *olp.methods(name, parts.get(OverloadPart), manager),
        *retained.methods(lambda: parts.get(RetainedPart).retainer),
        *delayed.methods(parts.get(DelayedPart).messages),
        *_of_rules(parts, manager),
        *([] if manager is None else _schemas(manager)),
        *([] if manager is None else policies.methods(_validation(parts), _transformation(parts), manager)),
        *slow_subscriptions.methods(lambda: parts.get(SlowSubscriptionsPart).found),
        *topic_metrics.methods(parts.get(TopicMetricsPart).counted, manager),
        *users.methods(
            parts.get(UsersPart).users,
            parts.get(UsersPart).passwords,
            UserTargets(lambda: parts.config, manager),
            kernel.context,
        ),
        *_of_process(parts, uptime_s),
        *storage.methods(
            parts.get(DataDirectory).path,
            lambda: _databases(parts),
            lambda: _storage_samples(parts),
            parts.health,
            parts.get(ReaderPart),
            lambda: parts.get(Databases).site_id if parts.get(Databases).stored else "",
        ),
        *backups.methods(parts.get(BackupsPart)),
        *erasure.methods(parts.get(ErasuresPart).erase),
        *topic_tree.methods(kernel.context, lambda name: database_of(_databases(parts), name)),
        *actions.methods(parts.get(ActionsPart), manager),
        *configured_sources.methods(parts.get(SourcesPart), manager),
        *sources.methods(
            sources.SourceAnswers(
                parts.get(SourcesPart), kernel.context, parts.get(RulesPart).engine, lambda: _limits(parts)
            )
        ),
        *pipeline.methods(
            lambda: parts.get(PipelinePart).process,
            PipelineTools(
                parts.get(PipelinePart),
                parts.get(ActionRunnerPart),
                lambda: parts.config,
                parts.get(DataDirectory).path,
            ),
        ),
    ]


def _of_process(parts: Parts, uptime_s: Callable[[], int]) -> list[Method]:
    memory, probe = parts.get(MemoryPart).contract, parts.get(SysmonPart).probe
    return [
        *vm.methods(memory, parts.get(Ticker).samples, uptime_s, lambda: probe.watch.turns),
        *live.methods(parts, memory, probe.recent.longest_s, uptime_us, uptime_s),
        *log.methods(parts.get(LogPart).recent.entries),
    ]


def _of_rules(parts: Parts, manager: ConfigManager | None) -> list[Method]:
    return [
        *rules.methods(
            parts.get(RulesPart).engine,
            parts.get(KernelPart).broker,
            manager,
            lambda: parts.get(EnvironmentPart).environment,
        ),
        *fallbacks.methods(lambda: parts.config, parts.get(RulesPart).engine, parts.get(KernelPart).context),
        *rule_language.methods(lambda: parts.get(EnvironmentPart).environment),
        *replays.methods(
            lambda: parts.config,
            parts.get(RulesPart).engine,
            lambda: [] if (process := parts.get(PipelinePart).process) is None else process.files,
        ),
    ]


def _schemas(manager: ConfigManager) -> list[Method]:
    return [
        *ConfiguredGroups(manager, SCHEMAS).methods(groups.SCHEMAS),
        *ConfiguredGroups(manager, SCHEMA_REGISTRIES).methods(groups.SCHEMA_REGISTRIES),
    ]


def _validation(parts: Parts) -> SchemaValidation:
    chain = parts.get(ValidationPart).chain
    assert isinstance(chain, SchemaValidation)
    return chain


def _transformation(parts: Parts) -> MessageTransformation:
    chain = parts.get(TransformationPart).chain
    assert isinstance(chain, MessageTransformation)
    return chain


def _of_clients(parts: Parts, context: ChannelContext, troubles: refusals.ClientTroubles) -> list[Method]:
    publishing = messages.MessagesAnswers(context, lambda: _limits(parts))
    return [
        *clients.methods(context, troubles),
        *client_ranks.methods(context, parts.get(DisconnectsPart).history),
        *client_actions.methods(context),
        *messages.methods(publishing),
        *message_replays.methods(publishing),
        *subscriptions.methods(context),
        *topics.methods(context),
        *tail.methods(context),
    ]


def _limits(parts: Parts) -> tuple[int, int]:
    mqtt = parts.config.mqtt
    return mqtt.max_packet_size, mqtt.max_topic_levels


def _overload(late_s: float) -> str:
    return f"the event loop is {late_s:.1f} s late" if late_s > _LATE_S else ""


def _databases(parts: Parts) -> list[AskedDatabase]:
    return [AskedDatabase(one.database, one.health) for one in parts.get(Databases).stored]


def _storage_samples(parts: Parts) -> list[Sample]:
    storing = [part for part in parts.all() if any(metric in COMMITS for metric in part.metrics)]
    return [sample for part in storing for sample in part.samples()]
