"""Gateways for other protocols: all names that EMQX knows, none of them loaded."""

from typing import Annotated, Any, Final, Literal, NoReturn

from fastapi import Query
from typing_extensions import TypedDict

from heliograph.management.web.area import Area
from heliograph.management.web.errors import ApiError

_NAMES: Final = ("coap", "exproto", "gbt32960", "jt808", "lwm2m", "mqttsn", "ocpp", "stomp")
_UNLOADED: Final = "unloaded"
_ERRORS: Final = {404: ("RESOURCE_NOT_FOUND",)}

area = Area("Gateways", "Gateways for other protocols. None is loaded.", scope="gateways")


class GatewayObject(TypedDict):
    """A gateway."""

    name: str
    status: str


@area.get("/gateways")
async def list_gateways(
    status: Annotated[Literal["running", "stopped", "unloaded"] | None, Query(description="Those with it")] = None,
) -> list[GatewayObject]:
    """The gateways that EMQX knows, all unloaded."""
    return [{"name": name, "status": _UNLOADED} for name in _NAMES if status in (None, _UNLOADED)]


@area.get("/gateways/{name}")
async def get_gateway(name: str) -> GatewayObject:
    """One gateway."""
    _check(name)
    return {"name": name, "status": _UNLOADED}


@area.put("/gateways/{name}/enable/{enable}", status=204, errors=_ERRORS)
async def enable_gateway(name: str, enable: bool) -> None:
    """Enable or disable a loaded gateway."""
    _refuse(name)


@area.get("/gateways/{name}/clients", errors=_ERRORS)
async def list_gateway_clients(name: str) -> dict[str, Any]:
    """Clients of a loaded gateway."""
    _refuse(name)


@area.get("/gateways/{name}/listeners", errors=_ERRORS)
async def list_gateway_listeners(name: str) -> list[dict[str, Any]]:
    """Listeners of a loaded gateway."""
    _refuse(name)


def _check(name: str) -> None:
    if name not in _NAMES:
        raise ApiError(400, "BAD_REQUEST", f"there is no gateway {name[:100]!r}; names are {', '.join(_NAMES)}")


def _refuse(name: str) -> NoReturn:
    _check(name)
    raise ApiError(404, "RESOURCE_NOT_FOUND", f"the gateway {name} is not loaded")
