"""Many clients kicked or banned at once: a plan first, which says how many and which, then just those."""

import asyncio
import uuid
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import aclosing, contextmanager
from typing import Annotated, Final

from fastapi import Request, Response
from pydantic import Field
from typing_extensions import TypedDict

from heliograph.control.proto_v1.bans import BANNED_ADD_CLIENTS, ClientBans
from heliograph.control.proto_v1.clients import (
    CLIENTS_KICK_ALL,
    CLIENTS_LIST,
    ClientIds,
    ClientRow,
    ClientsFilter,
    ClientsPage,
)
from heliograph.management.api.banned import Moment, read_seconds
from heliograph.management.api.client_filters import WiderFilterDep
from heliograph.management.api.clients import BAD_FILTER, ClientObject
from heliograph.management.api.clients import shown_clients as shown
from heliograph.management.asking.nodes import Node
from heliograph.management.web.area import MISSING, Area
from heliograph.management.web.asked_nodes import NodesDep
from heliograph.management.web.callers import Caller
from heliograph.management.web.errors import ApiError
from heliograph.management.web.models import Body, Bool, Str
from heliograph.management.web.paging import json_response
from heliograph.management.web.times import NowDep, rfc3339

area = Area("Plans for clients", "Many clients are kicked or banned at once, as it was planned.", scope="clients")

CLIENTS_MAX: Final = 10_000  # of a plan
_CHARACTERS_MAX: Final = 4 << 20  # of the ids of all plans
_PLANS_MAX: Final = 20
_OF_ALL_MAX: Final = 30_000  # clients of all plans
_LIFE_S: Final = 600.0
_FIRST: Final = 20
_AT_ONCE: Final = 200  # of one request to the node, and line of the audit
_AT_ONCE_CHARACTERS: Final = 128 << 10


class ClientPlan:
    """Which clients something is to be done with.

    Attributes:
        clientids: Those with which it is not done yet.
    """

    def __init__(self, owner: Caller, clientids: list[str]) -> None:
        self.owner = (owner.kind, owner.name)
        self.clientids = clientids
        self.ends_at = asyncio.get_running_loop().time() + _LIFE_S

    @property
    def characters(self) -> int:
        """Of all ids."""
        return sum(map(len, self.clientids))

    def share(self) -> list[str]:
        """The first ones, as many as one request takes."""
        taken, characters = 0, 0
        for clientid in self.clientids[:_AT_ONCE]:
            characters += len(clientid)
            if taken and characters > _AT_ONCE_CHARACTERS:
                break
            taken += 1
        return self.clientids[:taken]


class ClientPlans:
    """The plans that were not carried out yet; one for an application. The oldest give way."""

    def __init__(self) -> None:
        self._plans: OrderedDict[str, ClientPlan] = OrderedDict()

    def add(self, plan: ClientPlan) -> str:
        """Keep a plan: its id."""
        self._forget_old()
        name = uuid.uuid4().hex
        self._plans[name] = plan
        while len(self._plans) > 1 and self._is_too_much:
            self._plans.popitem(last=False)
        return name

    @contextmanager
    def carried_out(self, name: str, caller: Caller) -> Iterator[ClientPlan]:
        """Take a plan; what is left of it is kept where the block raises.

        Raises:
            ApiError: 404, this caller has none of that id.
        """
        self._forget_old()
        plan = self._plans.get(name)
        if plan is None or plan.owner != (caller.kind, caller.name):
            raise ApiError(404, "NOT_FOUND", f"there is no plan {name[:100]!r} of yours; one lasts ten minutes")
        del self._plans[name]
        try:
            yield plan
        except BaseException:
            self._plans[name] = plan
            raise

    @property
    def _is_too_much(self) -> bool:
        plans = self._plans.values()
        return (
            len(plans) > _PLANS_MAX
            or sum(len(one.clientids) for one in plans) > _OF_ALL_MAX
            or sum(one.characters for one in plans) > _CHARACTERS_MAX
        )

    def _forget_old(self) -> None:
        now = asyncio.get_running_loop().time()
        for name in [name for name, plan in self._plans.items() if plan.ends_at < now]:
            del self._plans[name]


class PlanShown(TypedDict):
    """A plan.

    Attributes:
        plan: What the request that carries it out names.
        count: How many clients it is for.
        more: Whether more clients match than the 10,000 that a plan has.
        first: The newest of them.
    """

    plan: str
    count: int
    more: bool
    ends_at: str
    first: list[ClientObject]


class PlannedKick(Body):
    """A plan to carry out."""

    plan: Annotated[Str, Field(max_length=100)]


class PlannedBan(PlannedKick):
    """A plan to carry out, with what the bans say."""

    reason: Annotated[Str, Field(max_length=1000)] = ""
    until: Moment | None = Field(None, description="For ever without it")
    kick: Bool = Field(True, description="Whether connections and sessions end too")


class KickedClients(TypedDict):
    """What became of the clients of a plan; `gone` had no session any more."""

    kicked: int
    gone: int


class BannedClients(TypedDict):
    """What became of the clients of a plan."""

    banned: int
    banned_before: int
    kicked: int


@area.post("/heliograph/clients/plan", errors=BAD_FILTER, answers=PlanShown)
async def plan_clients(request: Request, nodes: NodesDep, now_s: NowDep, wanted: WiderFilterDep) -> Response:
    """Which clients a filter is for now: how many, and the first of them. Nothing is done with them yet."""
    node = nodes.own
    clientids, first, has_more = await _matching(node, wanted)
    plan = ClientPlan(request.state.caller, clientids)
    name = _plans(request).add(plan)
    return json_response(
        {
            "plan": name,
            "count": len(clientids),
            "more": has_more,
            "ends_at": rfc3339(int((now_s + _LIFE_S) * 1e6)),
            "first": shown(first, node, None),
        }
    )


@area.post("/heliograph/clients/kick", errors=MISSING)
async def kick_planned(body: PlannedKick, request: Request, nodes: NodesDep) -> KickedClients:
    """End the connections and sessions of the clients of a plan; those that have gone since are counted."""
    kicked = gone = 0
    with _plans(request).carried_out(body.plan, request.state.caller) as plan:
        while share := plan.share():
            found = len(await nodes.own.rows(CLIENTS_KICK_ALL(ClientIds(share))))
            kicked, gone = kicked + found, gone + len(share) - found
            del plan.clientids[: len(share)]
    return {"kicked": kicked, "gone": gone}


@area.post("/heliograph/clients/ban", errors=MISSING)
async def ban_planned(body: PlannedBan, request: Request, nodes: NodesDep, now_s: NowDep) -> BannedClients:
    """Ban the clients of a plan by their ids, and end their connections and sessions."""
    until = None if body.until is None else read_seconds(body.until, "until")
    if until is not None and until <= now_s:
        raise ApiError(400, "BAD_REQUEST", "until: it is in the past")
    banned = held = kicked = 0
    with _plans(request).carried_out(body.plan, request.state.caller) as plan:
        while share := plan.share():
            order = ClientBans(share, body.reason, request.state.caller.name, until, body.kick)
            made = await nodes.own.ask(BANNED_ADD_CLIENTS(order))
            banned, held, kicked = banned + made.banned, held + made.held, kicked + made.kicked
            del plan.clientids[: len(share)]
    return {"banned": banned, "banned_before": held, "kicked": kicked}


async def _matching(node: Node, wanted: ClientsFilter) -> tuple[list[str], list[ClientRow], bool]:
    """The ids of those that match, as many as a plan has; the first of them; whether there are more."""
    clientids: list[str] = []
    first: list[ClientRow] = []
    characters = 0
    page = ClientsPage(wanted, limit=CLIENTS_MAX + 1)
    async with aclosing(node.slices(CLIENTS_LIST(page))) as slices:
        async for rows in slices:
            first += rows[: _FIRST - len(first)]
            for row in rows:
                characters += len(row.clientid)
                if len(clientids) == CLIENTS_MAX or (clientids and characters > _CHARACTERS_MAX):
                    return clientids, first, True
                clientids.append(row.clientid)
    return clientids, first, False


def _plans(request: Request) -> ClientPlans:
    state = request.app.state
    if not hasattr(state, "client_plans"):
        state.client_plans = ClientPlans()
    plans: ClientPlans = state.client_plans
    return plans
