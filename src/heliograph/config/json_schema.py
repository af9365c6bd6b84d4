"""The configuration of a node as JSON Schema, for editors and for forms; `heliograph conf schema` prints it."""

from __future__ import annotations

from typing import Final

from heliograph.config.actions.databases import CommandTemplate
from heliograph.config.actions.fallbacks import FallbackActions
from heliograph.config.address_limits import NetworkText
from heliograph.config.authentication import Expressions, WantedClaims
from heliograph.config.backends.mongodb import MongoFilter, Unsupported
from heliograph.config.backends.redis import RedisCommandText
from heliograph.config.kinds import AccessRuleText, Bind, ListenerBind, PartOfAll, PriorityTable, RateLimit, SizeOrPart
from heliograph.config.management import ProxyNetwork
from heliograph.config.message_policies import OperationKey
from heliograph.config.opentelemetry import SHARE_PATTERN, SampleRatio
from heliograph.config.pipeline import SparkConf
from heliograph.config.rules import Actions, JsonObject
from heliograph.config.schemas import Headers, SchemaType, SourceText
from heliograph.config.services import RegularExpression
from heliograph.config.settings import Config
from heliograph.settings.json_schema import (
    DURATION_PATTERN,
    SIZE_PATTERN,
    SettingPlace,
    Shape,
    alternatives,
    group_shape,
    shape_of,
    text_shape,
)

DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"

_PART: Final = "(?:[1-9][0-9]?|100)%"
_ADDRESS: Final = {"type": ["string", "integer"], "minimum": 0, "maximum": 65_535, "minLength": 1, "x-kind": "address"}


def json_schema() -> Shape:
    return {
        "$schema": DIALECT,
        "title": "Configuration of a Heliograph node",
        "description": "Texts have the units of the configuration file; a number alone is milliseconds or bytes.",
        **group_shape(Config, SettingPlace()),
    }


@shape_of.register
def _(kind: SizeOrPart) -> Shape:
    return alternatives(shape_of(kind.size), text_shape(_PART, **{"x-kind": "part"}))


@shape_of.register
def _(kind: PartOfAll) -> Shape:
    fraction = {"type": "number", "exclusiveMinimum": 0, "maximum": 1}
    return alternatives(text_shape(_PART, **{"x-kind": "part"}), fraction)


@shape_of.register
def _(kind: SampleRatio) -> Shape:
    number = {"type": "number", "minimum": 0, "maximum": 1}
    return alternatives(number, text_shape(SHARE_PATTERN, **{"x-kind": "share"}))


@shape_of.register
def _(kind: RateLimit) -> Shape:
    amount = f"(?:[0-9]+|{SIZE_PATTERN})" if kind.of_bytes else "[0-9]+"
    interval = f"(?:[mM][sS]|[smhdwfSMHDWF]|{DURATION_PATTERN})"
    return text_shape(f"{amount}/{interval}", **{"x-kind": "byte rate" if kind.of_bytes else "rate"})


@shape_of.register(Bind)
@shape_of.register(ListenerBind)
def _(kind: Bind | ListenerBind) -> Shape:
    return dict(_ADDRESS)


@shape_of.register
def _(kind: AccessRuleText) -> Shape:
    return text_shape(r"(?:allow|deny)\s+\S+", **{"x-kind": "access rule"})


@shape_of.register
def _(kind: NetworkText | ProxyNetwork) -> Shape:
    return {"type": "string", "x-kind": "network"}


@shape_of.register
def _(kind: CommandTemplate) -> Shape:
    return {"type": "array", "items": {"type": ["string", "number"]}, "minItems": 1}


@shape_of.register
def _(kind: JsonObject) -> Shape:
    return {"type": "object"}


@shape_of.register
def _(kind: PriorityTable) -> Shape:
    return {"type": "object", "additionalProperties": {"type": "integer", "minimum": 1, "maximum": 255}}


@shape_of.register
def _(kind: SchemaType) -> Shape:
    return {"enum": ["", *kind.words]}


@shape_of.register
def _(kind: SourceText) -> Shape:
    return {"type": ["string", "object"], "x-kind": "schema source"}


@shape_of.register
def _(kind: Actions) -> Shape:
    action = {"type": ["string", "object"], "x-kind": "action"}
    return alternatives({"type": "array", "items": action}, action)


@shape_of.register
def _(kind: FallbackActions) -> Shape:
    return {"type": "array", "items": {"type": "object", "x-kind": "fallback action"}}


@shape_of.register
def _(kind: Expressions) -> Shape:
    expression = {"type": "string", "x-kind": "variform"}
    return alternatives({"type": "array", "items": expression, "minItems": 1}, expression)


@shape_of.register
def _(kind: WantedClaims) -> Shape:
    text = {"type": ["string", "integer", "boolean"]}
    claim = {"type": "object", "properties": {"name": text, "value": text}, "required": ["name", "value"]}
    return alternatives({"type": "object", "additionalProperties": text}, {"type": "array", "items": claim})


@shape_of.register
def _(kind: MongoFilter) -> Shape:
    return {"type": "object"}


@shape_of.register
def _(kind: RedisCommandText) -> Shape:
    return {"type": "string", "x-kind": "redis command"}


@shape_of.register
def _(kind: Unsupported) -> Shape:
    return {"not": {}}


@shape_of.register
def _(kind: RegularExpression) -> Shape:
    return {"type": "string", "x-kind": "regular expression"}


@shape_of.register
def _(kind: OperationKey) -> Shape:
    return {"type": "string", "x-kind": "operation key"}


@shape_of.register
def _(kind: Headers) -> Shape:
    return {"type": "object", "additionalProperties": {"type": ["string", "integer"]}}


@shape_of.register
def _(kind: SparkConf) -> Shape:
    return {"type": "object", "additionalProperties": {"type": ["string", "number", "boolean", "object"]}}
