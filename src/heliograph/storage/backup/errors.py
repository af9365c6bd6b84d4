"""Why a backup cannot be made, read or restored. What was in the place before is whole."""

from heliograph.storage.errors import StorageError


class BackupFailedError(StorageError):
    """A place cannot be used, or a data directory cannot be copied to it or restored from it."""

    code = "backup_failed"
    advice = "Earlier backups are as they were"
    reason = "the backup failed"

    def __init__(self, problem: str) -> None:
        super().__init__(problem, database="")


class BackupFullError(BackupFailedError):
    """The place has no room."""

    code = "backup_full"
    advice = "Earlier backups are as they were; what was copied of this one is used or removed by the next"


class BackupDamagedError(BackupFailedError):
    """A backup is not what was written."""

    code = "backup_damaged"
    advice = "`heliograph backup verify` names all that is damaged; restore an earlier backup, or make another one"
