"""Passwords and keys: from a file of settings, or from a file of their own, and never in a message."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

#: What people see in the place of a secret, and what keeps it as it is where it is sent back.
STARS: Final = "******"
#: How the value of a setting begins that names the file of a secret.
FILE_PREFIX: Final = "file://"


class SecretError(Exception):
    """The file of a secret cannot be read."""


@dataclass(frozen=True)
class Secret:
    """A text that people must not see by accident, or the file that holds it.

    Attributes:
        text: The text; empty where it is in a file.
        file: The file; it is read whenever the secret is used, so that it can be changed while the program runs.
    """

    text: str = field(default="", repr=False)
    file: Path | None = None

    def reveal(self) -> str:
        """The text, without the end of line that a file may have.

        Raises:
            SecretError: The file cannot be read.
        """
        if self.file is None:
            return self.text
        try:
            return self.file.read_text(encoding="utf-8").rstrip("\r\n")
        except (OSError, UnicodeDecodeError) as error:
            raise SecretError(f"the file {self.file} with a secret cannot be read: {error}") from error
