"""Backups of a node in its `backup.place`: which there are, and one more."""

from typing import Any, Final

from heliograph.control.proto_v1.backups import (
    BACKUPS_LIST,
    BACKUPS_MAKE,
    BACKUPS_STATUS,
    BACKUPS_VERIFY,
    BackupMade,
    BackupNamed,
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
_NOW: Final = ApiRow("BackupsNow", BackupStatus)
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


@area.get("/heliograph/nodes/{node}/backups/now", errors=MISSING, answers=_NOW.one)
async def show_backups_now(node: str, nodes: NodesDep) -> dict[str, Any]:
    """How far the backup is that is made now, and when the next one is due; the place is not read."""
    return _NOW(await nodes.named(node).ask(BACKUPS_STATUS()))


@area.post("/heliograph/nodes/{node}/backups/{id}/verify", errors=MISSING, answers=_ROW.one)
async def verify_backup(node: str, id: str, nodes: NodesDep) -> dict[str, Any]:
    """Read all content of a backup in `backup.place` and compare its checksums; the answer says what is wrong."""
    return _ROW(await nodes.named(node).ask(BACKUPS_VERIFY(BackupNamed(id)), timeout_s=None))
