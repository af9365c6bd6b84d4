"""The filters of lists of clients, from the query."""

from ipaddress import ip_address
from typing import Annotated, Final, Literal

from fastapi import Depends, Query
from msgspec.structs import replace

from heliograph.control.proto_v1.clients import ClientsFilter
from heliograph.management.web.errors import ApiError
from heliograph.management.web.times import read_time_us

_EVER: Final = 1 << 62


def _filter(
    clientid: Annotated[list[str] | None, Query(description="One of these client ids")] = None,
    username: Annotated[list[str] | None, Query(description="One of these user names")] = None,
    ip_address: Annotated[str | None, Query(description="The address that they connect from")] = None,
    conn_state: Annotated[Literal["connected", "idle", "disconnected"] | None, Query()] = None,
    clean_start: Annotated[bool | None, Query()] = None,
    proto_ver: Annotated[Literal["3", "4", "5"] | None, Query()] = None,
    like_clientid: Annotated[str, Query(description="A part of the client id")] = "",
    like_username: Annotated[str, Query(description="A part of the user name")] = "",
    gte_created_at: Annotated[str | None, Query(description="RFC 3339, or milliseconds")] = None,
    lte_created_at: Annotated[str | None, Query(description="RFC 3339, or milliseconds")] = None,
    gte_connected_at: Annotated[str | None, Query(description="RFC 3339, or milliseconds")] = None,
    lte_connected_at: Annotated[str | None, Query(description="RFC 3339, or milliseconds")] = None,
) -> ClientsFilter:
    return ClientsFilter(
        clientids=[] if conn_state == "idle" else clientid,  # what has not sent a CONNECT yet is no client here
        usernames=username,
        clientid_like=like_clientid,
        username_like=like_username,
        ip="" if ip_address is None else _address(ip_address),
        connected=None if conn_state is None else conn_state == "connected",
        clean_start=clean_start,
        proto_ver=None if proto_ver is None else int(proto_ver),
        created_from=_time(gte_created_at, "gte_created_at"),
        created_until=_time(lte_created_at, "lte_created_at", 999),
        connected_from=_time(gte_connected_at, "gte_connected_at"),
        connected_until=_time(lte_connected_at, "lte_connected_at", 999),
    )


FilterDep = Annotated[ClientsFilter, Depends(_filter)]


def _wider_filter(
    wanted: FilterDep,
    listener: Annotated[str, Query(max_length=300, description="The listener, as `tcp:default`")] = "",
    zone: Annotated[str, Query(max_length=300, description="The zone")] = "",
    min_backlog: Annotated[int, Query(ge=0, le=_EVER, description="For which at least so many messages wait")] = 0,
    min_drops: Annotated[int, Query(ge=0, le=_EVER, description="That did not get at least so many messages")] = 0,
) -> ClientsFilter:
    return replace(wanted, listener=listener, zone=zone, min_queue=min_backlog, min_dropped=min_drops)


WiderFilterDep = Annotated[ClientsFilter, Depends(_wider_filter)]
"""EMQX's filters, and those that it has not."""


def _time(text: str | None, name: str, within_us: int = 0) -> int:
    """A bound in microseconds; one that is said in milliseconds holds to the end of its millisecond."""
    return 0 if text is None else min(max(1, read_time_us(text, name) + within_us), _EVER)


def _address(text: str) -> str:
    try:
        return str(ip_address(text))
    except ValueError:
        raise ApiError(400, "INVALID_PARAMETER", f"ip_address: found {text[:100]!r}; an address as 192.0.2.7") from None
