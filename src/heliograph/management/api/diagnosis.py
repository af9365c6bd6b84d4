"""What a node is busy with: who holds its memory, which turns took long, and what its log says."""

from typing import Annotated, Any, Final, Literal

from fastapi import Query

from heliograph.control.proto_v1.log import LOG_ENTRIES, LogEntriesWanted
from heliograph.control.proto_v1.vm import VM_LOOP, VM_MEMORY, VM_TURNS, LongTurnRow, VmLoop, VmMemory
from heliograph.management.live.subjects import LOG_ENTRY
from heliograph.management.web.area import MISSING, Area
from heliograph.management.web.asked_nodes import NodesDep
from heliograph.management.web.rows import ApiRow

area = Area("Diagnosis", "What a node is busy with, and what its log says.", scope="metrics")

Level = Literal["debug", "info", "warning", "error", "critical"]


_MEMORY: Final = ApiRow("HeldMemory", VmMemory)
_TURN: Final = ApiRow("LongTurnShown", LongTurnRow)
_TURNS: Final = ApiRow("LongTurns", VmLoop, without=("lag_s", "ticks"), turns=_TURN.rows())


@area.get("/heliograph/nodes/{node}/memory", errors=MISSING, answers=_MEMORY.one)
async def get_node_memory(node: str, nodes: NodesDep) -> dict[str, Any]:
    """Who holds the memory of a node: sessions, queues, retained messages, caches and others (docs/memory.md)."""
    return _MEMORY(await nodes.named(node).ask(VM_MEMORY()))


@area.get("/heliograph/nodes/{node}/turns", errors=MISSING, answers=_TURNS.one)
async def get_long_turns(node: str, nodes: NodesDep) -> dict[str, Any]:
    """The last hundred turns of the event loop that took 20 ms or more, the newest first, with what ran in them."""
    asked = nodes.named(node)
    loop = await asked.ask(VM_LOOP())
    rows = await asked.rows(VM_TURNS())
    return _TURNS(loop, turns=[_TURN(row) for row in rows])


@area.get(
    "/heliograph/nodes/{node}/log", scope="log:read", errors=MISSING, answers=LOG_ENTRY.listed("LogEntryList", {})
)
async def list_log_entries(
    node: str,
    nodes: NodesDep,
    level: Annotated[Level, Query(description="The least severe level")] = "debug",
    after: Annotated[int, Query(ge=0, le=1 << 62, description="The number of an entry: only those behind it")] = 0,
    limit: Annotated[int, Query(ge=1, le=1000)] = 200,
) -> dict[str, Any]:
    """The newest of the last thousand log entries of a node, of the levels that `log` writes."""
    rows = await nodes.named(node).rows(LOG_ENTRIES(LogEntriesWanted(level, after, limit)))
    return {"data": [LOG_ENTRY(row) for row in rows]}
