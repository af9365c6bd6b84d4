"""What can be asked of the backups of a node, and the making of one."""

from collections.abc import AsyncIterator, Sequence
from typing import Protocol

from heliograph.control.proto_v1 import backups as proto
from heliograph.rpc.methods import Call, Method, NoArgs, RpcError
from heliograph.storage.errors import StorageError


class AskedBackups(Protocol):
    """Makes backups; `node.backups` implements it."""

    async def make(self, place: str, secrets: bool | None) -> proto.BackupMade:
        """Make one; raises `BackupFailedError`."""

    def status(self) -> proto.BackupStatus: ...

    async def rows(self) -> list[proto.BackupRow]:
        """Those in the configured place; raises `BackupFailedError`."""

    async def verify(self, name: str) -> proto.BackupRow:
        """Read all of one in the configured place; raises `BackupFailedError`."""


def methods(backups: AskedBackups) -> list[Method]:
    """What can be asked: `backups.make`, `backups.status`, `backups.list`, `backups.verify`."""

    async def make(args: proto.BackupWanted, call: Call) -> proto.BackupMade:
        try:
            return await backups.make(args.place, args.secrets)
        except StorageError as error:
            raise RpcError(error.code, str(error)) from error

    async def rows(args: NoArgs, call: Call) -> AsyncIterator[Sequence[proto.BackupRow]]:
        try:
            found = await backups.rows()
        except StorageError as error:
            raise RpcError(error.code, str(error)) from error
        yield found

    async def verify(args: proto.BackupNamed, call: Call) -> proto.BackupRow:
        try:
            return await backups.verify(args.id)
        except StorageError as error:
            raise RpcError(error.code, str(error)) from error

    return [
        proto.BACKUPS_MAKE.by(make),
        proto.BACKUPS_STATUS.by(lambda args, call: backups.status()),
        proto.BACKUPS_LIST.by(rows),
        proto.BACKUPS_VERIFY.by(verify),
    ]
