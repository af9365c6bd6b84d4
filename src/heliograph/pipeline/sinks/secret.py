"""Passwords and keys of sinks: from the pipeline file or a file of their own, and never in a message."""

from dataclasses import dataclass, field
from pathlib import Path

from heliograph.pipeline.errors import SinkError
from heliograph.pipeline.files.section import Section


@dataclass(frozen=True)
class Secret:
    """A text that people must not see by accident, or the file that holds it.

    Attributes:
        text: The text; empty where it is in a file.
        file: The file; it is read whenever the secret is used, so that it can be changed while the pipeline runs.
    """

    text: str = field(default="", repr=False)
    file: Path | None = None

    def reveal(self) -> str:
        """The text, without the end of line that a file may have.

        Raises:
            SinkError: The file cannot be read.
        """
        if self.file is None:
            return self.text
        try:
            return self.file.read_text(encoding="utf-8").rstrip("\r\n")
        except (OSError, UnicodeDecodeError) as error:
            raise SinkError(f"the file {self.file} with a secret cannot be read: {error}") from error


def read_secret(section: Section, key: str) -> Secret | None:
    """Read the secret under `key`, or in the file that `key`_file names; None where there is neither."""
    file_key = f"{key}_file"
    if key in section.fields and file_key in section.fields:
        raise section.mistake(f"{section.path} has both {key} and {file_key}: give one", section.fields[file_key])
    if file_key in section.fields:
        return Secret(file=Path(section.text(file_key)))
    return Secret(section.text(key)) if key in section.fields else None
