"""API keys, with which programs call the API. Not for API keys themselves."""

from typing import Annotated, Final

from fastapi import Response
from pydantic import Field

from heliograph.access.people.api_keys import api_key_of, new_secret, secret_hash_of
from heliograph.access.people.names import ADMINISTRATOR
from heliograph.control.proto_v1.people import (
    PEOPLE_KEY_ADD,
    PEOPLE_KEY_DELETE,
    PEOPLE_KEY_SET,
    PEOPLE_KEYS,
    ApiKeyChange,
    ApiKeyName,
    ApiKeyRow,
    NewApiKey,
)
from heliograph.management.api.people import kept
from heliograph.management.web.area import Area
from heliograph.management.web.asked_nodes import NodesDep
from heliograph.management.web.errors import ApiError
from heliograph.management.web.models import Body, Bool, Str, Whole
from heliograph.management.web.paging import json_response
from heliograph.management.web.rows import ApiRow
from heliograph.management.web.times import read_time_us

area = Area("API keys", "Keys of programs. A secret is shown once, when its key is made.", scope="api_keys")

_SECOND_US = 1_000_000
_FOREVER = frozenset({"infinity", "undefined", ""})
_EXPIRED_AT = "RFC 3339, or `infinity`"
_YEAR_9999_S = 253_402_300_799


class NewApiKeyBody(Body):
    """A key to make."""

    name: Annotated[Str, Field(description="A letter, then letters, digits, hyphens and underscores")]
    desc: Str = ""
    enable: Bool = True
    expired_at: Annotated[Str | Whole | None, Field(description=_EXPIRED_AT)] = None
    role: Str = ADMINISTRATOR


class ApiKeyChangeBody(Body):
    """What is to be changed of a key."""

    desc: Str | None = None
    enable: Bool | None = None
    expired_at: Annotated[Str | Whole | None, Field(description=_EXPIRED_AT)] = None
    role: Str | None = None


_KEY: Final = ApiRow("ApiKeyAnswer", ApiKeyRow)
_NEW_KEY: Final = ApiRow("NewApiKeyAnswer", ApiKeyRow, api_secret=str)


@area.get("/api_key", answers=_KEY.rows)
async def list_api_keys(nodes: NodesDep) -> Response:
    """All keys."""
    return json_response([_KEY(row) for row in await nodes.own.rows(PEOPLE_KEYS())])


@area.post("/api_key", answers=_NEW_KEY.one)
async def add_api_key(body: NewApiKeyBody, nodes: NodesDep) -> Response:
    """Make a key; the answer is the only one that has its secret."""
    secret = new_secret()
    wanted = NewApiKey(
        body.name,
        api_key_of(body.name),
        secret_hash_of(secret),
        body.role,
        body.desc,
        body.enable,
        _expires(body.expired_at) or None,
    )
    row = await kept(nodes.own.ask(PEOPLE_KEY_ADD(wanted)))
    response = json_response(_NEW_KEY(row, api_secret=secret))
    response.headers["cache-control"] = "no-store"
    return response


@area.get("/api_key/{name}", errors={404: ("NOT_FOUND",)}, answers=_KEY.one)
async def get_api_key(name: str, nodes: NodesDep) -> Response:
    """One key."""
    for row in await nodes.own.rows(PEOPLE_KEYS()):
        if row.name == name:
            return json_response(_KEY(row))
    raise ApiError(404, "NOT_FOUND", f"there is no API key {name[:256]!r}")


@area.put("/api_key/{name}", errors={404: ("NOT_FOUND",)}, answers=_KEY.one)
async def change_api_key(name: str, body: ApiKeyChangeBody, nodes: NodesDep) -> Response:
    """Change a key; its secret stays."""
    expires = None if body.expired_at is None else _expires(body.expired_at)
    wanted = ApiKeyChange(name, body.role, body.desc, body.enable, expires)
    return json_response(_KEY(await kept(nodes.own.ask(PEOPLE_KEY_SET(wanted)))))


@area.delete("/api_key/{name}", errors={404: ("NOT_FOUND",)})
async def delete_api_key(name: str, nodes: NodesDep) -> None:
    """Delete a key."""
    await kept(nodes.own.ask(PEOPLE_KEY_DELETE(ApiKeyName(name))))


def _expires(value: str | int | None) -> int:
    """Seconds since the epoch; 0 for never."""
    if value is None or value in _FOREVER:
        return 0
    if isinstance(value, int):
        seconds = value
    else:
        seconds = int(value) if value.isascii() and value.isdigit() else read_time_us(value, "expired_at") // _SECOND_US
    if not 0 < seconds <= _YEAR_9999_S:
        raise ApiError(400, "BAD_REQUEST", f"expired_at: found {str(value)[:100]}; {_EXPIRED_AT} is valid")
    return seconds
