"""The schema registry, and registries of others."""

import json
from typing import Any, Final, Literal, NotRequired

from pydantic import ConfigDict, Field
from typing_extensions import TypedDict

from heliograph.control.proto_v1.groups import (
    SCHEMA_REGISTRIES,
    SCHEMAS,
    GroupRemoval,
    GroupSettings,
    GroupShown,
    NamedGroup,
)
from heliograph.control.proto_v1.rule_language import SCHEMAS_CHECK, PayloadChecked, PayloadToCheck
from heliograph.management.api.named_files import check_files
from heliograph.management.api.people import CallerDep
from heliograph.management.api.secret_places import check_secrets_stay
from heliograph.management.web.answering import answering
from heliograph.management.web.area import MISSING, Area
from heliograph.management.web.asked_nodes import AskedNodes, NodesDep
from heliograph.management.web.models import Body, Row, Str
from heliograph.management.web.payloads import Encoding, payload_bytes
from heliograph.management.web.rows import ApiRow

area = Area("Schema registry", "Schemas by which payloads are read, written and checked.", scope="schemas")

_INVALID: Final = {400: ("ALREADY_EXISTS",)}
_REFUSED: Final = MISSING
_SCHEMAS: Final = ("schema_registry", "schemas")
_REGISTRIES: Final = ("schema_registry", "external")
_EXAMPLE: Final[dict[str, Any]] = {"name": "text", "type": "avro", "source": '{"type": "string"}', "description": ""}
_REGISTRY: Final[dict[str, Any]] = {"name": "far", "type": "confluent", "url": "http://127.0.0.1:8081"}


class SchemaBody(Body):
    """A schema."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [_EXAMPLE]})

    type: Literal["avro", "protobuf", "json", "external_http"]
    source: Str | None = Field(default=None, description="Its text; not for `external_http`")
    description: Str = ""
    parameters: dict[str, Any] | None = Field(default=None, description="Of `external_http`: `url` and more")
    name: Str = ""

    def settings(self) -> str:
        """What the configuration says of it."""
        return json.dumps(self.model_dump(exclude_none=True, exclude={"name"}), ensure_ascii=False)


class NewSchema(SchemaBody):
    """A schema that is made."""

    name: Str = Field(min_length=1)


class SchemaObject(Row):
    """A schema with its name."""

    name: str
    type: str
    description: str = ""


class PayloadBody(Body):
    """A payload that is held against a schema."""

    payload: Str
    encoding: Encoding = "plain"
    message_type: Str = Field(default="", description="Which message of a Protobuf schema")


class BasicAuthBody(Body):
    """A user name and a password."""

    mechanism: Literal["basic"] = "basic"
    username: Str
    password: Str


class RegistryBody(Body):
    """A registry of others."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [_REGISTRY]})

    type: Literal["confluent"] = "confluent"
    url: Str
    auth: Literal["none"] | BasicAuthBody = "none"
    name: Str = ""

    def settings(self) -> str:
        """What the configuration says of it."""
        auth = {} if self.auth == "none" else {"auth": self.auth.model_dump(exclude={"mechanism"})}
        return json.dumps({"type": self.type, "url": self.url, **auth}, ensure_ascii=False)


class NewRegistry(RegistryBody):
    """A registry that is made known."""

    name: Str = Field(min_length=1)


_CHECKED: Final = ApiRow("CheckedPayload", PayloadChecked, fits=bool)


class RegistryAuth(TypedDict):
    """A user name and a password, which is shown as stars."""

    mechanism: str
    username: str
    password: str


class RegistryShown(TypedDict):
    """An external registry."""

    type: str
    url: str
    auth: RegistryAuth | Literal["none"]
    name: NotRequired[str]


@area.get("/schema_registry", answers=list[SchemaObject])
async def list_schemas(nodes: NodesDep) -> list[dict[str, Any]]:
    """All schemas."""
    return [_schema(row) for row in await nodes.own.rows(SCHEMAS.list())]


@area.post("/schema_registry", status=201, response_model=SchemaObject, errors=_INVALID)
async def create_schema(body: NewSchema, nodes: NodesDep, caller: CallerDep) -> dict[str, Any]:
    """Make a schema."""
    await check_files(caller, nodes.own, (*_SCHEMAS, body.name), json.loads(body.settings()))
    with answering():
        await nodes.own.ask(SCHEMAS.put(GroupSettings(body.name, body.settings(), is_new=True)))
    return await _shown(nodes, body.name)


@area.get("/schema_registry/{name}", response_model=SchemaObject, errors=MISSING)
async def get_schema(name: str, nodes: NodesDep) -> dict[str, Any]:
    """One schema."""
    return await _shown(nodes, name)


@area.put("/schema_registry/{name}", response_model=SchemaObject, errors=_REFUSED)
async def put_schema(name: str, body: SchemaBody, nodes: NodesDep, caller: CallerDep) -> dict[str, Any]:
    """Change a schema."""
    await _shown(nodes, name)
    place, wanted = (*_SCHEMAS, name), json.loads(body.settings())
    await check_files(caller, nodes.own, place, wanted)
    await check_secrets_stay(caller, nodes.own, place, wanted)
    await nodes.own.ask(SCHEMAS.put(GroupSettings(name, body.settings())))
    return await _shown(nodes, name)


@area.delete("/schema_registry/{name}", errors=_REFUSED)
async def delete_schema(name: str, nodes: NodesDep) -> None:
    """Delete a schema; refused while a validation or transformation uses it."""
    with answering():
        await nodes.own.ask(SCHEMAS.delete(GroupRemoval(name)))


@area.post("/heliograph/schemas/{name}/check", errors=_REFUSED, answers=_CHECKED.one)
async def check_payload(name: str, body: PayloadBody, nodes: NodesDep) -> dict[str, Any]:
    """Decode a payload with a schema, or say why it does not fit."""
    await _shown(nodes, name)
    wanted = PayloadToCheck(name, payload_bytes(body.payload, body.encoding), body.message_type)
    checked = await nodes.own.ask(SCHEMAS_CHECK(wanted))
    return _CHECKED(checked, fits=not checked.fault)


@area.get("/schema_registry_external", answers=dict[str, RegistryShown])
async def list_external_registries(nodes: NodesDep) -> dict[str, Any]:
    """All external registries, by name."""
    return {row.name: _registry(row) for row in await nodes.own.rows(SCHEMA_REGISTRIES.list())}


@area.post("/schema_registry_external", status=201, answers=RegistryShown, errors=_INVALID)
async def create_external_registry(body: NewRegistry, nodes: NodesDep) -> dict[str, Any]:
    """Add an external registry."""
    settings = GroupSettings(body.name, body.settings(), is_new=True)
    with answering():
        await nodes.own.ask(SCHEMA_REGISTRIES.put(settings))
    return {"name": body.name, **await _external(nodes, body.name)}


@area.get("/schema_registry_external/registry/{name}", answers=RegistryShown, errors=MISSING)
async def get_external_registry(name: str, nodes: NodesDep) -> dict[str, Any]:
    """One external registry."""
    return await _external(nodes, name)


@area.put("/schema_registry_external/registry/{name}", answers=RegistryShown, errors=_REFUSED)
async def put_external_registry(name: str, body: RegistryBody, nodes: NodesDep, caller: CallerDep) -> dict[str, Any]:
    """Change an external registry."""
    await _external(nodes, name)
    await check_secrets_stay(caller, nodes.own, (*_REGISTRIES, name), json.loads(body.settings()))
    await nodes.own.ask(SCHEMA_REGISTRIES.put(GroupSettings(name, body.settings())))
    return await _external(nodes, name)


@area.delete("/schema_registry_external/registry/{name}", errors=_REFUSED)
async def delete_external_registry(name: str, nodes: NodesDep) -> None:
    """Delete an external registry."""
    with answering():
        await nodes.own.ask(SCHEMA_REGISTRIES.delete(GroupRemoval(name)))


async def _shown(nodes: AskedNodes, name: str) -> dict[str, Any]:
    with answering():
        return _schema(await nodes.own.ask(SCHEMAS.show(NamedGroup(name))))


def _schema(row: GroupShown) -> dict[str, Any]:
    return {"name": row.name, "description": "", **json.loads(row.text)}


async def _external(nodes: AskedNodes, name: str) -> dict[str, Any]:
    with answering():
        return _registry(await nodes.own.ask(SCHEMA_REGISTRIES.show(NamedGroup(name))))


def _registry(row: GroupShown) -> dict[str, Any]:
    plain = {"type": "confluent", **json.loads(row.text)}
    auth = plain.get("auth")
    return {**plain, "auth": {"mechanism": "basic", **auth} if auth else "none"}
