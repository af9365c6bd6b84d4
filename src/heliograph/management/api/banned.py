"""Bans: who may not connect."""

import time
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing
from datetime import UTC, datetime
from typing import Annotated, Any, Final, Literal

import orjson
from fastapi import Query, Response
from pydantic import Field

from heliograph.control.columns import SECOND_US
from heliograph.control.proto_v1.bans import (
    BANNED_ADD,
    BANNED_CLEAR,
    BANNED_COUNT,
    BANNED_DELETE,
    BANNED_LIST,
    BANNED_SHOW,
    BanName,
    BanRow,
    BansWanted,
    NewBan,
)
from heliograph.management.asking.nodes import Node
from heliograph.management.web.answering import answering
from heliograph.management.web.area import MISSING, Area
from heliograph.management.web.asked_nodes import NodesDep
from heliograph.management.web.errors import ApiError
from heliograph.management.web.models import Body, Str, Whole
from heliograph.management.web.paging import PageDep, page_response, take_page
from heliograph.management.web.rows import ApiRow
from heliograph.management.web.times import NowDep, read_time_us
from heliograph.rpc.methods import RpcError

area = Area("Banned", "Who may not connect. A ban does not end connections that are there.", scope="clients")

Kind = Literal["clientid", "username", "peerhost", "clientid_re", "username_re", "peerhost_net"]
Moment = Annotated[Str | Whole, Field(description="RFC 3339, or seconds since the epoch")]

_INFINITY: Final = "infinity"
_EXPRESSION_MAX: Final = 4096
_SEARCH_S: Final = 0.01  # for one ban
_SEARCHES_S: Final = 1.0  # for all


def _time_text(time_us: int) -> str:
    return datetime.fromtimestamp(time_us // SECOND_US, UTC).astimezone().isoformat(timespec="seconds")


_BAN: Final = ApiRow("Ban", BanRow, time_text=_time_text)


class NewBanned(Body):
    """A ban to make."""

    kind: Annotated[Kind, Field(alias="as")]
    who: Annotated[Str, Field(min_length=1)]
    by: Str = "mgmt_api"
    reason: Str = ""
    at: Moment | None = None
    until: Moment | None = None


@area.get("/banned", answers=_BAN.page)
async def list_banned(
    nodes: NodesDep,
    page: PageDep,
    clientid: Annotated[str, Query(description="The ban of this client id")] = "",
    username: Annotated[str, Query(description="The ban of this user name")] = "",
    peerhost: Annotated[str, Query(description="The ban of this address")] = "",
    like_clientid: Annotated[str, Query(description="Bans of client ids that an expression matches")] = "",
    like_username: Annotated[str, Query(description="Bans of user names that an expression matches")] = "",
    like_peerhost: Annotated[str, Query(description="Bans of addresses that an expression matches")] = "",
    like_peerhost_net: Annotated[str, Query(description="Bans of networks that an expression matches")] = "",
) -> Response:
    """A page of the bans that hold; one filter at the most."""
    exact = {"clientid": clientid, "username": username, "peerhost": peerhost}
    like = {
        "clientid": like_clientid,
        "username": like_username,
        "peerhost": like_peerhost,
        "peerhost_net": like_peerhost_net,
    }
    given = [
        (kind, text, is_like) for is_like, of in ((False, exact), (True, like)) for kind, text in of.items() if text
    ]
    if len(given) > 1:
        raise ApiError(400, "BAD_REQUEST", "too_many_filters: give one filter at the most")
    node = nodes.own
    if not given or not given[0][2]:
        kind, who = given[0][:2] if given else ("", "")
        rows = await node.rows(BANNED_LIST(BansWanted(kind, page.limit + 1, "", who, page.skip)))
        shown = [_BAN(row) for row in rows[: page.limit]]
        (counted,) = await node.rows(BANNED_COUNT(BansWanted(kind, who=who)))
        return page_response(shown, page, counted.count, len(rows) > page.limit)
    kind, text, _ = given[0]
    found, has_next = await take_page(_matching(node, kind, _search(text)), page)
    return page_response([_BAN(row) for row in found], page, None, has_next)


@area.post("/banned", errors={400: ("ALREADY_EXISTS",)}, answers=_BAN.one)
async def create_banned(body: NewBanned, nodes: NodesDep, now_s: NowDep) -> dict[str, Any]:
    """Ban a client id, a user name or an address; connections that are there stay."""
    at = int(now_s) if body.at is None else read_seconds(body.at, "at")
    until = None if body.until in (None, _INFINITY) else read_seconds(body.until, "until")
    if until is not None and until <= now_s:
        raise ApiError(400, "BAD_REQUEST", "until: it is in the past")
    new = NewBan(body.kind, body.who, body.reason, body.by, until, at=at, kicks=False)
    try:
        made = await nodes.own.ask(BANNED_ADD(new))
    except RpcError as error:
        if error.code == "already_exists":
            held = await nodes.own.ask(BANNED_SHOW(BanName(body.kind, body.who)))
            raise ApiError(400, "ALREADY_EXISTS", orjson.dumps(_BAN(held)).decode()) from error
        raise
    return _BAN(made.ban)


@area.delete("/banned/{kind}/{who}", errors=MISSING)
async def delete_banned(kind: Kind, who: str, nodes: NodesDep) -> None:
    """Lift a ban."""
    with answering(not_found=(404, "NOT_FOUND", f"{kind} {who[:200]} is not banned")):
        await nodes.own.ask(BANNED_DELETE(BanName(kind, who)))


@area.delete("/banned")
async def delete_all_banned(nodes: NodesDep) -> None:
    """Lift all bans."""
    await nodes.own.ask(BANNED_CLEAR(BansWanted()))


def read_seconds(given: str | int, name: str) -> int:
    """Seconds since the epoch of RFC 3339, or of such seconds.

    Args:
        name: The field, for errors.

    Raises:
        ApiError: 400, it is neither.
    """
    if isinstance(given, int) or (given.isascii() and given.isdigit()):
        seconds = int(given)
    else:
        seconds = read_time_us(given, name) // 1_000_000
    if not 0 <= seconds < 253_402_300_800:
        raise ApiError(
            400, "BAD_REQUEST", f"{name}: found {str(given)[:50]}; seconds since the epoch, before the year 10000"
        )
    return seconds


def _search(text: str) -> Callable[[str], bool]:
    """Whether an expression matches somewhere; what it may cost is bounded.

    Raises:
        ApiError: 400, it is no expression.
    """
    import regex  # most processes never need it

    if len(text) > _EXPRESSION_MAX:
        raise ApiError(400, "BAD_REQUEST", f"an expression has {_EXPRESSION_MAX} characters at the most")
    try:
        expression = regex.compile(text)
    except (regex.error, OverflowError, RecursionError) as error:
        raise ApiError(400, "BAD_REQUEST", f"{text[:100]!r} is no regular expression: {error}") from error
    left_s = _SEARCHES_S

    def found(who: str) -> bool:
        nonlocal left_s
        began = time.perf_counter()
        try:
            return expression.search(who, timeout=_SEARCH_S) is not None
        except TimeoutError:
            raise ApiError(400, "BAD_REQUEST", f"{text[:100]!r} takes too long to search for") from None
        finally:
            left_s -= time.perf_counter() - began
            if left_s < 0:
                raise ApiError(400, "BAD_REQUEST", f"{text[:100]!r} takes too long to search for")

    return found


async def _matching(node: Node, kind: str, found: Callable[[str], bool]) -> AsyncIterator[list[BanRow]]:
    async with aclosing(node.slices(BANNED_LIST(BansWanted(kind)))) as slices:
        async for rows in slices:
            yield [row for row in rows if found(row.who)]
