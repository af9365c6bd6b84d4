"""Why an export or import cannot be done."""


class BackupError(Exception):
    """An archive cannot be written, read, or taken; nothing of it was taken, unless the text says what."""

    code = "backup_invalid"


class RefusedTableError(BackupError):
    """An archive has a table that who asks may not have.

    Attributes:
        table: Its name.
    """

    def __init__(self, table: str) -> None:
        super().__init__(f"the archive has the table {table}, which is refused here")
        self.table = table
