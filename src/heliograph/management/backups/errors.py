"""Why an export or import cannot be done."""


class BackupError(Exception):
    """An archive cannot be written, read, or taken; nothing of it was taken, unless the text says what."""

    code = "backup_invalid"


class RefusedTableError(BackupError):
    """The role of the caller does not allow a table of an archive.

    Attributes:
        table: Its name.
    """

    def __init__(self, table: str) -> None:
        super().__init__(f"the archive has the table {table}, which is refused here")
        self.table = table
