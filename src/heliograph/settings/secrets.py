"""Passwords and keys: from a file of settings, or from a file of their own, and never in a message.

Which settings are secrets, `settings.fields` says.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Final

#: What people see in the place of a secret, and what keeps it as it is where it is sent back.
STARS: Final = "******"
#: How the value of a setting begins that names the file of a secret.
FILE_PREFIX: Final = "file://"


class SecretError(Exception):
    """The file of a secret cannot be read."""

    code: ClassVar[str] = "secret_file"


@dataclass(frozen=True, repr=False)
class Secret:
    """A text that people must not see by accident, or the file that holds it; stars wherever it is printed.

    Attributes:
        text: The text; empty where it is in a file, and where there is none.
        file: The file; it is read whenever the secret is used, so that it can be changed while the program runs.
    """

    text: str = ""
    file: Path | None = None

    @staticmethod
    def of(value: str) -> Secret:
        """What a setting says: the secret itself, or `file://` and the path of its file."""
        path = value.removeprefix(FILE_PREFIX)
        return Secret(value) if path == value else Secret(file=Path(path))

    def reveal(self) -> str:
        """Without blanks and ends of line around what a file holds; `SecretError` if it is unreadable or empty."""
        if self.file is None:
            return self.text
        try:
            text = self.file.read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise SecretError(f"the file {self.file} with a secret cannot be read: {error}") from error
        if not text:
            raise SecretError(f"the file {self.file} with a secret is empty")
        return text

    def __bool__(self) -> bool:
        """Whether there is one."""
        return bool(self.text) or self.file is not None

    def __repr__(self) -> str:
        return STARS
