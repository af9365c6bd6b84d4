"""Message transformation: changes messages before rules, storage and subscribers get them.

The transformations for the topic that a message came with run in the order of the configuration; each sees what those
before it made. One that fails leaves nothing behind. A transformed message does not run through transformations again.
"""

import logging
from collections.abc import Callable
from typing import Final

from heliograph.broker import hooks
from heliograph.broker.hooks import OK, STOP
from heliograph.broker.message import Message
from heliograph.broker.pubsub import Broker
from heliograph.config.message_policies import PayloadCoding, Transformation
from heliograph.message_policies.chain import PolicyChain, Stage
from heliograph.message_policies.draft import Draft
from heliograph.message_policies.errors import TransformationFault
from heliograph.message_policies.schemas import find_schema
from heliograph.rules.engine.columns import NodeFacts
from heliograph.rules.environment import Environment
from heliograph.rules.errors import EvaluationFault
from heliograph.rules.json_text import decode_json, encode_json
from heliograph.rules.schemas import Schema, SchemaError, SchemaRegistry
from heliograph.rules.values import Value, bytes_of, describe

ROOT: Final = "message_transformation"

# What a transformation does to the turn of its publisher, in deliveries: 5 µs and 10 ns for each byte.
_STAGE_WORK: Final = 100
_BYTES_PER_WORK_LOG2: Final = 2
_Code = Callable[[Schema, Value, str | None], Value]
Coding = Callable[[Value], Value]
"""A payload before and after; raises `TransformationFault` for one that does not fit."""


class TransformationStage(Stage):
    __slots__ = ("_decode", "_encode", "_operations")

    def __init__(
        self, settings: Transformation, number: int, environment: Environment, levels_max: Callable[[], int]
    ) -> None:
        # Variform, which a node without transformations does not load.
        from heliograph.message_policies.operations import compile_operation

        super().__init__(settings)
        place = (ROOT, "transformations", str(number))
        self._decode = compile_decoder(settings.payload_decoder, (*place, "payload_decoder"), environment.schemas)
        self._encode = compile_encoder(settings.payload_encoder, (*place, "payload_encoder"), environment.schemas)
        self._operations = [
            compile_operation(operation, (*place, "operations", str(position)), levels_max, environment)
            for position, operation in enumerate(settings.operations, 1)
        ]

    def apply(self, draft: Draft) -> Draft:
        """What a draft becomes; it is left as it is."""
        other = draft.copy()
        try:
            if self._decode is not None:
                other.payload = self._decode(other.payload)
            for operate in self._operations:
                operate(other)
            if self._encode is not None:
                other.set_payload(self._encode(other.payload))
        except TransformationFault:
            raise
        except Exception as error:  # noqa: BLE001 - a library that cannot cope with a payload has not transformed it
            raise TransformationFault(f"it cannot cope with the message: {type(error).__name__}: {error}") from None
        return other


class MessageTransformation(PolicyChain[Transformation, TransformationStage]):
    """The transformations of one node; owned by `TransformationPart`."""

    def __init__(
        self,
        broker: Broker,
        environment: Environment,
        node: NodeFacts,
        logger: logging.Logger,
    ) -> None:
        point = hooks.MESSAGE_TRANSFORMATION_FAILED
        super().__init__(broker, "transformation", ROOT, "transformation", point, logger)
        self._environment = environment
        self._node = node

    def _stage(self, settings: Transformation, number: int) -> TransformationStage:
        return TransformationStage(settings, number, self._environment, lambda: self._broker.router.levels_max)

    def try_out(self, settings: Transformation, message: Message) -> Message:
        """What a transformation that is not among these makes of a message; called in any thread."""
        return self._stage(settings, 1).apply(Draft(message, self._node)).finish()

    def on_message_publish(self, message: Message) -> object:
        stages = self._index.find(message.topic)
        if not stages:
            return OK
        self._broker.work += len(stages) * (_STAGE_WORK + (len(message.publish.data) >> _BYTES_PER_WORK_LOG2))
        draft = Draft(message, self._node)
        failed = False
        last: TransformationStage | None = None  # the last one that went well; whether it did, the end shows
        for stage in stages:
            stage.counts.matched += 1
            try:
                draft = stage.apply(draft)
            except TransformationFault as fault:
                failed = True
                refusal = self._fail(stage, message, str(fault))
                if refusal is None:
                    continue
                self._failed_count += 1
                return STOP, refusal
            if last is not None:
                last.counts.succeeded += 1
            last = stage
        if failed:
            self._failed_count += 1
        return OK if last is None else self._finish(message, draft, last, failed)

    def rewrite_only(self, message: Message) -> Message | None:
        stages = self._index.find(message.topic)
        draft = Draft(message, self._node)
        last: TransformationStage | None = None
        for stage in stages:
            self._broker.work += _STAGE_WORK + (len(message.publish.data) >> _BYTES_PER_WORK_LOG2)
            try:
                draft = stage.apply(draft)
            except TransformationFault:
                if stage.is_refusing:
                    return None
                continue
            last = stage
        try:
            return draft.finish()
        except TransformationFault:
            return None if last is not None and last.is_refusing else message

    def _finish(self, message: Message, draft: Draft, last: TransformationStage, failed: bool) -> object:
        """Publish a draft; a payload that was not encoded is the fault of the last transformation."""
        try:
            transformed = draft.finish()
        except TransformationFault as fault:
            self._failed_count += not failed
            refusal = self._fail(last, message, str(fault))
            return OK if refusal is None else (STOP, refusal)
        last.counts.succeeded += 1
        self._passed_count += not failed
        return OK, transformed


def compile_decoder(settings: PayloadCoding, path: tuple[str, ...], schemas: SchemaRegistry) -> Coding | None:
    """What decodes payloads; None for nothing."""
    if settings.type == "json":
        return _decode_json
    return _by_schema(settings, path, schemas, _decode)


def compile_encoder(settings: PayloadCoding, path: tuple[str, ...], schemas: SchemaRegistry) -> Coding | None:
    """What encodes payloads; None for nothing."""
    if settings.type == "json":
        return _translated(lambda payload: encode_json(payload).encode(), "JSON")
    return _by_schema(settings, path, schemas, _encode)


def _by_schema(settings: PayloadCoding, path: tuple[str, ...], schemas: SchemaRegistry, code: _Code) -> Coding | None:
    if settings.type == "none":
        return None
    find_schema(schemas, settings.type, settings.schema, settings.message_type, path)
    name, message_type = settings.schema, settings.message_type or None

    def coding(payload: Value) -> Value:
        # The registry is read each time: a schema may be replaced while the node runs.
        schema = schemas.get(name)
        if schema.may_block:
            raise TransformationFault(f"the schema {name!r} may keep the broker waiting")
        return code(schema, payload, message_type)

    return _translated(coding, f"{settings.type} schema {name}")


def _decode(schema: Schema, payload: Value, message_type: str | None) -> Value:
    return schema.decode(_data(payload), message_type)


def _encode(schema: Schema, payload: Value, message_type: str | None) -> Value:
    return schema.encode(payload, message_type)


def _decode_json(payload: Value) -> Value:
    try:
        return decode_json(_data(payload))
    except EvaluationFault as fault:
        raise TransformationFault(f"the payload is {fault}") from None


def _data(payload: Value) -> bytes:
    if not isinstance(payload, str | bytes):
        raise TransformationFault(f"the payload is decoded already: it is {describe(payload)}")
    return bytes_of(payload)


def _translated(code: Coding, what: str) -> Coding:
    def translated(payload: Value) -> Value:
        try:
            return code(payload)
        except (SchemaError, EvaluationFault) as error:
            raise TransformationFault(f"the payload does not go with the {what}: {error}") from None

    return translated
