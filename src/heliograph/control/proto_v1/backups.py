"""Backups of a node: what is asked, and answers."""

from typing import Annotated

import msgspec

from heliograph.control.columns import Fact, Time
from heliograph.rpc.asks import ACTS, ONE, Ask, ListAsk
from heliograph.rpc.methods import Args, NoArgs


class BackupWanted(Args, frozen=True):
    """A backup to make.

    Attributes:
        place: A directory or a URI; empty for `backup.place`.
        secrets: Whether tokens and private keys are in it; as `backup.secrets` where that is None.
    """

    place: str = ""
    secrets: bool | None = None


class BackupMade(msgspec.Struct, frozen=True):
    """A backup that was made.

    Attributes:
        id: Its name in the place.
        at: Its moment, in microseconds since the epoch.
        bytes: Of all of its files.
        copied_files: Those that the place did not have.
        duration_s: Of the copying.
        held_ms: How long it held the event loop.
        removed: Older backups that were removed.
    """

    place: str
    id: str
    at: Time
    files: int
    bytes: int
    copied_files: int
    copied_bytes: int
    duration_s: float
    held_ms: float
    removed: list[str]


class BackupStatus(msgspec.Struct, frozen=True):
    """How backups of a node are; times are microseconds since the epoch, None for never.

    Attributes:
        place: Of `backup.place`; empty where none is set.
        is_running: Whether one is made now.
        last_place: Where the newest went that was made.
        next_at: When the next one is due by itself; None for not at all.
        problem: Why the last attempt failed; empty if it did not.
        every_s: Of `backup.every`, in seconds.
        keep: Of `backup.keep`; None for all.
        done_bytes: What of the one that is made now is in the place; 0 where none is made.
        total_bytes: How much that will be.
    """

    is_enabled: Annotated[bool, Fact("enable")]
    place: str
    is_running: bool
    last_id: str
    last_place: str
    last_at: Annotated[int | None, Fact(time_us=1)]
    next_at: Annotated[int | None, Fact(time_us=1)]
    problem: str
    every_s: float = 0.0
    keep: int | None = None
    done_bytes: int = 0
    total_bytes: int = 0


class BackupRow(msgspec.Struct, frozen=True):
    """A backup in `backup.place`.

    Attributes:
        version: Of the Heliograph that made it.
        copied_bytes: What earlier backups did not have; as much as `bytes` for a full one, None where it is not known.
        problems: What is missing of it; `verify` reads its content too.
    """

    id: str
    at: Time
    node: str
    version: str
    layouts: dict[str, str]
    secrets: bool
    files: int
    bytes: int
    problems: list[str]
    copied_bytes: int | None = None


class BackupNamed(Args, frozen=True):
    """A backup in `backup.place`."""

    id: str


BACKUPS_MAKE = Ask("backups.make", BackupWanted, BackupMade, ONE, ACTS)
BACKUPS_STATUS = Ask("backups.status", NoArgs, BackupStatus, ONE)
BACKUPS_LIST = ListAsk("backups.list", NoArgs, BackupRow, ONE)
BACKUPS_VERIFY = Ask("backups.verify", BackupNamed, BackupRow, ONE)
