"""Backups of a node in its `backup.place`: which there are, and one more."""

from typing import Any, Final

from heliograph.control.proto_v1.backups import (
    BACKUPS_LIST,
    BACKUPS_MAKE,
    BACKUPS_STATUS,
    BackupMade,
    BackupRow,
    BackupStatus,
    BackupWanted,
)
from heliograph.management.web.area import MISSING, Area
from heliograph.management.web.asked_nodes import NodesDep
from heliograph.management.web.errors import ApiError
from heliograph.management.web.rows import ApiRow

area = Area("Backups", "Backups of everything that a node keeps, messages and sessions included.", scope="data")

_ROW: Final = ApiRow("Backup", BackupRow)
_STATUS: Final = ApiRow("Backups", BackupStatus, data=_ROW.rows())
_MADE: Final = ApiRow("BackupMade", BackupMade)


@area.get("/heliograph/nodes/{node}/backups", errors=MISSING, answers=_STATUS.one)
async def list_backups(node: str, nodes: NodesDep) -> dict[str, Any]:
    """The backups in `backup.place`, oldest first, with what is missing of them, and when the next one is due."""
    asked = nodes.named(node)
    status = await asked.ask(BACKUPS_STATUS())
    return _STATUS(status, data=[_ROW(row) for row in await asked.rows(BACKUPS_LIST(), timeout_s=None)])


@area.post("/heliograph/nodes/{node}/backups", errors=MISSING, answers=_MADE.one)
async def make_backup(node: str, nodes: NodesDep) -> dict[str, Any]:
    """Make a backup in `backup.place`; the answer comes when it is made, and it goes on without the caller."""
    asked = nodes.named(node)
    if not (await asked.ask(BACKUPS_STATUS())).place:
        raise ApiError(400, "BAD_REQUEST", "the setting backup.place names no place for backups")
    return _MADE(await asked.ask(BACKUPS_MAKE(BackupWanted()), timeout_s=None))
