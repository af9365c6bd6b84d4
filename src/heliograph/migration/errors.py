"""What an import ends with where it cannot be made."""

from typing import ClassVar


class ImportRefusedError(Exception):
    """A file of another broker cannot be read, or clients could do too much without it."""

    code: ClassVar[str] = "import_refused"
