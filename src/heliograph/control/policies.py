"""What can be asked of validations and transformations of messages, and done with them.

Changes are changes of the configuration.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Any, Final, TypeVar

from heliograph.broker.message import Message, make_message
from heliograph.config.message_policies import MessagePolicy, Transformation, Validation
from heliograph.config_changes.errors import ConfigRefusedError
from heliograph.config_changes.groups import GroupList, group_in
from heliograph.config_changes.manager import ConfigManager
from heliograph.control.checks import check_topic_name
from heliograph.control.conf import refused, sliced
from heliograph.control.configured import TRANSFORMATIONS, VALIDATIONS, ConfiguredList, Resource, json_text
from heliograph.control.messages import properties_of
from heliograph.control.proto_v1 import groups as proto
from heliograph.control.proto_v1 import policies as policies_proto
from heliograph.message_policies.chain import PolicyChain
from heliograph.message_policies.errors import MessagePolicyError, TransformationFault
from heliograph.message_policies.transformation import MessageTransformation
from heliograph.message_policies.validation import Judgement, SchemaValidation
from heliograph.mqtt.properties import Properties, encode_properties
from heliograph.rpc.codes import BAD_ARGUMENTS
from heliograph.rpc.methods import Call, Method, NoArgs, RpcError
from heliograph.settings.reading import GroupReader

Chain = PolicyChain[Any, Any]
PolicyT = TypeVar("PolicyT", bound=MessagePolicy)

_FAULT_LENGTH_MAX: Final = 2_000
_GROUP_LENGTH: Final = 3  # names of a path before those of the settings: area, list, position


def methods(
    validation: SchemaValidation, transformation: MessageTransformation, manager: ConfigManager
) -> list[Method]:
    trials = _Trials(validation, transformation)
    return [
        *_of(proto.VALIDATIONS, VALIDATIONS, validation, manager),
        *_of(proto.TRANSFORMATIONS, TRANSFORMATIONS, transformation, manager),
        policies_proto.VALIDATIONS_DRY_RUN.by(trials.validate),
        policies_proto.TRANSFORMATIONS_DRY_RUN.by(trials.transform),
    ]


def _of(asks: proto.OrderedAsks, resource: Resource, chain: Chain, manager: ConfigManager) -> list[Method]:
    policies = ConfiguredList(manager, resource)

    def row(name: str, plain: Mapping[str, object]) -> proto.GroupShown:
        return proto.GroupShown(name, json_text(plain), dict(chain.counts_of(name)))

    async def listed(args: NoArgs, call: Call) -> AsyncIterator[Sequence[proto.GroupShown]]:
        groups = await policies.groups()
        for names in sliced(groups.names):
            yield [row(name, groups.plain(name)) for name in names]

    async def shown(args: proto.NamedGroup, call: Call) -> proto.GroupShown:
        return row(args.name, await policies.shown(args.name))

    async def reset(args: proto.NamedGroup, call: Call) -> proto.GroupShown:
        plain = await policies.shown(args.name)
        chain.reset(args.name)
        return row(args.name, plain)

    async def changed(call: Call, change: Callable[[GroupList], str]) -> proto.GroupChanged:
        done = await policies.change(call, change)
        return proto.GroupChanged(done.name or ", ".join(done.names), done.outcome.revision)

    return [
        asks.list.by(listed),
        asks.show.by(shown),
        asks.add.by(lambda args, call: changed(call, lambda them: them.add(args.text))),
        asks.update.by(lambda args, call: changed(call, lambda them: them.update(args.text, args.name))),
        asks.delete.by(lambda args, call: changed(call, lambda them: them.delete(args.name))),
        asks.switch.by(
            lambda args, call: changed(call, lambda them: them.enable(args.name, is_enabled=args.is_enabled))
        ),
        asks.order.by(lambda args, call: changed(call, lambda them: them.order(args.names))),
        asks.reset.by(reset),
    ]


class _Trials:
    """Tries validations and transformations that nothing else uses."""

    def __init__(self, validation: SchemaValidation, transformation: MessageTransformation) -> None:
        self._validation = validation
        self._transformation = transformation

    async def validate(self, args: policies_proto.PolicyTrial, call: Call) -> policies_proto.ValidationTried:
        return await asyncio.to_thread(self._validate, args)

    def _validate(self, args: policies_proto.PolicyTrial) -> policies_proto.ValidationTried:
        settings = _settings(Validation, args.text, "validation")
        if not settings.checks:
            raise RpcError(BAD_ARGUMENTS, "checks: the validation has none")
        for number, check in enumerate(settings.checks, 1):
            if not check.type:
                raise RpcError(
                    BAD_ARGUMENTS, f"checks.{number}.type: it is missing; json, avro, protobuf and sql are valid"
                )
        try:
            judgement = self._validation.try_out(settings, _message(args.message))
        except MessagePolicyError as error:
            raise _unusable(error) from None
        checks = [
            policies_proto.CheckTried(check.type, _fault(problem))
            for check, problem in zip(settings.checks, judgement.problems, strict=True)
        ]
        return policies_proto.ValidationTried(_fault(judgement.problem), _outcome(judgement), checks)

    async def transform(self, args: policies_proto.PolicyTrial, call: Call) -> policies_proto.MessageShown:
        return await asyncio.to_thread(self._transform, args)

    def _transform(self, args: policies_proto.PolicyTrial) -> policies_proto.MessageShown:
        settings = _settings(Transformation, args.text, "transformation")
        try:
            out = self._transformation.try_out(settings, _message(args.message))
        except TransformationFault as fault:
            raise RpcError("transformation_failed", str(fault)) from None
        except MessagePolicyError as error:
            raise _unusable(error) from None
        user = out.properties.user if out.property_bytes else []
        return policies_proto.MessageShown(out.topic, out.payload, int(out.qos), bool(out.retain), list(user))


def _settings(kind: type[PolicyT], text: str, what: str) -> PolicyT:
    """The settings that a text is; they need no name and no topics, since nothing else finds them."""
    try:
        node = group_in(text, what)
    except ConfigRefusedError as error:
        raise refused(error) from None
    reader = GroupReader()
    settings = reader.section(kind, node, ())
    if reader.problems:
        raise RpcError(BAD_ARGUMENTS, "\n".join(f"{one.path}: {one.message}" for one in reader.problems))
    assert isinstance(settings, kind)
    return settings


def _unusable(error: MessagePolicyError) -> RpcError:
    """Why settings cannot be used, with the path below them."""
    place = ".".join(error.path[_GROUP_LENGTH:])
    problem = error.problem.partition("\n")[0]  # behind it SQL and expressions are drawn, for a terminal
    return RpcError(BAD_ARGUMENTS, f"{place}: {problem}" if place else problem)


def _fault(problem: str | None) -> str:
    return "" if problem is None else problem[:_FAULT_LENGTH_MAX] or "it does not pass"


def _outcome(judgement: Judgement) -> str:
    if not judgement.is_for_topic:
        return "not_checked"
    refusal = judgement.refusal
    if refusal is None:
        return "goes_on"
    return "disconnected" if refusal.disconnects else "dropped"


def _message(given: policies_proto.TrialMessage) -> Message:
    check_topic_name(given.topic)
    if not 0 <= given.qos <= 2:
        raise RpcError(BAD_ARGUMENTS, f"qos is {given.qos}; 0, 1 and 2 are valid")
    properties = Properties() if given.properties is None else properties_of(given.properties)
    properties.user = list(given.user_properties)
    encoded = encode_properties(properties) if properties.named() else b""
    return make_message(
        time.time_ns() // 1000,
        0,
        given.topic,
        given.payload,
        given.qos,
        given.retain,
        encoded,
        given.clientid,
        given.username,
    )
