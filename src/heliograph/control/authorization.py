"""What can be asked of authorization: its sources, changes of them, and why a client may do something or not."""

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

from heliograph.access.authorization.explaining import DecisionStep, explained
from heliograph.access.authorization.part import AuthorizationPart
from heliograph.broker.actions import PUBLISH, SUBSCRIBE, Action, publish_action, subscribe_action
from heliograph.broker.client import ClientInfo
from heliograph.channel.context import ChannelContext
from heliograph.config_changes.groups import GroupList
from heliograph.config_changes.manager import ConfigManager
from heliograph.control.checks import check_subscription, check_topic_name, plain_address
from heliograph.control.configured import SOURCES, ConfiguredList
from heliograph.control.proto_v1 import authorization as proto
from heliograph.control.refusals import ClientTroubles
from heliograph.control.slices import in_slices
from heliograph.mqtt.topic import bare_filter, without_delay
from heliograph.rpc.codes import BAD_ARGUMENTS
from heliograph.rpc.methods import Call, Method, NoArgs, RpcError

_CHANGES: Final[Mapping[str, Callable[[GroupList, proto.SourceChange], str]]] = {
    "add": lambda sources, args: sources.add(args.text, args.position),
    "update": lambda sources, args: sources.update(args.text, args.type),
    "delete": lambda sources, args: sources.delete(args.type),
    "enable": lambda sources, args: sources.enable(args.type, is_enabled=True),
    "disable": lambda sources, args: sources.enable(args.type, is_enabled=False),
    "move": lambda sources, args: sources.move(args.type, args.position),
    "order": lambda sources, args: sources.order(args.types),
}


def methods(
    part: AuthorizationPart, context: ChannelContext, manager: ConfigManager | None, troubles: ClientTroubles
) -> list[Method]:
    """What can be asked: `authz.*`. The manager writes changes of the configuration into the audit log itself.

    Args:
        manager: What changes the configuration; None where nothing does.
    """
    answers = AuthorizationAnswers(part, context, manager, troubles)
    return [
        proto.AUTHZ_SOURCES.by(answers.sources),
        proto.AUTHZ_STATUS.by(answers.status),
        proto.AUTHZ_CHANGE.by(answers.change),
        proto.AUTHZ_CACHE_CLEAN.by(answers.clean_cache),
        proto.AUTHZ_RECHECK.by(answers.recheck),
        proto.AUTHZ_EXPLAIN.by(answers.explain),
    ]


class AuthorizationAnswers:
    def __init__(
        self, part: AuthorizationPart, context: ChannelContext, manager: ConfigManager | None, troubles: ClientTroubles
    ) -> None:
        self._part = part
        self._troubles = troubles
        self._context = context
        self._manager = manager

    def sources(self, args: NoArgs, call: Call) -> Iterator[Sequence[proto.SourceStatus]]:
        """Answer `authz.sources`: all of them in their order, with what they counted."""
        return in_slices(
            proto.SourceStatus(
                one.type, one.is_enabled, one.state, **one.counts, mean_s=one.mean_s, rates=dict(one.rates)
            )
            for one in self._part.status()
        )

    def status(self, args: NoArgs, call: Call) -> proto.AuthorizationStatus:
        settings = self._part.settings
        is_checked = self._context.broker.rights.is_checked
        cache = self._part.node_cache.statistics()
        return proto.AuthorizationStatus(settings.no_match, settings.deny_action, is_checked, cache)

    async def change(self, args: proto.SourceChange, call: Call) -> proto.SourcesChanged:
        """Answer `authz.change`: change the list of sources, by a change of the configuration."""
        if self._manager is None:
            raise RpcError("not_enabled", "the configuration of this node is a program's, which changes it")
        change = _CHANGES.get(args.verb)
        if change is None:
            raise RpcError(BAD_ARGUMENTS, f"{args.verb!r} is no change of sources; {', '.join(_CHANGES)} are valid")
        done = await ConfiguredList(self._manager, SOURCES).change(call, lambda sources: change(sources, args))
        return proto.SourcesChanged(done.name, done.names, done.outcome.revision, dict(done.outcome.failed))

    async def clean_cache(self, args: proto.CacheCleaning, call: Call) -> proto.CacheCleaned:
        """Answer `authz.cache_clean`: forget decisions and rules, of one client or of all."""
        self._context.begin_turn()
        if args.clientid:
            await self._rechecked(args.clientid)
            return proto.CacheCleaned(args.clientid, 0)
        answers = self._part.node_cache.clear()
        self._part.forget_rules()
        return proto.CacheCleaned("", answers)

    async def recheck(self, args: proto.ClientName, call: Call) -> proto.Rechecked:
        """Answer `authz.recheck`: forget what is remembered of a client, and check its subscriptions again."""
        self._context.begin_turn()
        return proto.Rechecked(args.clientid, await self._rechecked(args.clientid))

    async def explain(self, args: proto.ExplainWanted, call: Call) -> proto.Explanation:
        action, topic = _action(args), _topic(args)
        client = self._described(args) if args.is_described else self._connected(args.clientid)
        steps = await explained(self._part, client, action, topic)
        decided = next(step for step in steps if step.decides)
        return proto.Explanation(
            client.clientid,
            client.username,
            client.peerhost,
            client.listener,
            not args.is_described,
            args.action,
            topic,
            action.qos,
            action.retain,
            decided.said == "allow",
            decided.source,
            [_step(step) for step in steps],
            self._part.settings.deny_action,
        )

    async def _rechecked(self, clientid: str) -> list[str]:
        self._connected(clientid)
        checked = self._context.rechecks.check(clientid)
        if checked is None:
            return []
        done: asyncio.Future[list[str]] = asyncio.get_running_loop().create_future()
        checked.done.then(lambda recheck: None if done.done() else done.set_result(recheck.dropped))
        return await done

    def _connected(self, clientid: str) -> ClientInfo:
        client = self._context.channels.find_client(clientid)
        if client is None:
            raise RpcError(
                "not_found",
                f"{clientid!r} is not connected{self._troubles.about_session(clientid)}; `ctl clients list` shows who "
                "is. Describe it instead, as with --username or --described",
            )
        return client

    def _described(self, args: proto.ExplainWanted) -> ClientInfo:
        client = ClientInfo(args.clientid, args.username, "")
        if args.peerhost:
            host = plain_address(args.peerhost)
            client.peername = f"[{host}]:0" if ":" in host else f"{host}:0"
        client.listener = args.listener
        client.zone = args.zone or "default"
        client.common_name = args.cert_common_name
        client.client_attrs = args.client_attrs
        client.is_superuser = args.is_superuser
        return client


def _action(args: proto.ExplainWanted) -> Action:
    if args.qos not in (0, 1, 2):
        raise RpcError(BAD_ARGUMENTS, f"the QoS is {args.qos}; 0, 1 and 2 are valid")
    if args.action == PUBLISH:
        return publish_action(args.qos, args.retain)
    if args.action == SUBSCRIBE:
        return subscribe_action(args.qos)
    raise RpcError(BAD_ARGUMENTS, f"the action is {args.action!r}; publish and subscribe are valid")


def _topic(args: proto.ExplainWanted) -> str:
    """What is checked: the topic of a delayed message, the filter of a shared subscription."""
    if args.action == PUBLISH:
        topic = without_delay(args.topic)
        check_topic_name(topic)
        return topic
    check_subscription(args.topic)
    return bare_filter(args.topic)


def _step(step: DecisionStep) -> proto.ExplainedStep:
    return proto.ExplainedStep(step.source, step.said, step.rule, step.place, step.why)
