"""The token with which programs of the node's user on its machine read stored messages, where no others are described.

The node makes it in its data directory, which only its user may read, and notes where that is in a directory of the
user, for the port that the reader listens at. So a client of the same user, and of nobody else, finds the token by the
address.
"""

import os
import secrets
import stat
from contextlib import suppress
from pathlib import Path
from typing import Final

TEMPORARY = Path("/tmp")  # TMPDIR may not be the same for node and client
FILE: Final = "flight_token"
_TOKEN_BYTES: Final = 32
_LOOPBACK: Final = ("127.", "localhost", "[::1]", "::1")


def read_or_make_token(data_dir: Path) -> str:
    """The token of a node; made at its first start, in a file with mode 0600.

    Raises:
        OSError: It cannot be read or made.
    """
    file = data_dir / FILE
    with suppress(FileNotFoundError):
        text = file.read_text("ascii").strip()
        if text:
            file.chmod(0o600)
            return text
    token = secrets.token_urlsafe(_TOKEN_BYTES)
    draft = data_dir / f"{FILE}.new"
    draft.unlink(missing_ok=True)
    with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as out:
        out.write(token + "\n")
        out.flush()
        os.fsync(out.fileno())
    draft.replace(file)
    return token


def announce(bind: str, data_dir: Path) -> None:
    """Note where the token for a reader is.

    Args:
        bind: HOST:PORT that it serves on.
        data_dir: The node's data directory.

    Raises:
        OSError: It was not noted; clients must be told the token then.
    """
    notes = _notes()
    notes.mkdir(mode=0o700, exist_ok=True)
    if not _is_ours(notes):
        raise PermissionError(f"{notes} is another user's, or open to others")
    draft = notes / f".{_port(bind)}.{os.getpid()}"
    draft.write_text(f"{(data_dir / FILE).absolute()}\n")
    draft.replace(notes / _port(bind))


def withdraw(bind: str, data_dir: Path) -> None:
    """Take the note away, if it is still of this node."""
    with suppress(OSError):
        note = _notes() / _port(bind)
        if note.read_text().strip() == str((data_dir / FILE).absolute()):
            note.unlink()


def find_token(endpoint: str) -> str | None:
    """The token for a reader on this machine, if a node of this user has noted it.

    Args:
        endpoint: HOST:PORT, with or without a scheme.
    """
    address = endpoint.rpartition("://")[2]
    if not address.startswith(_LOOPBACK):
        return None
    with suppress(OSError):
        if _is_ours(_notes()):
            return Path((_notes() / _port(address)).read_text().strip()).read_text().strip() or None
    return None


def _port(address: str) -> str:
    return address.rpartition(":")[2]


def _notes() -> Path:
    return TEMPORARY / f"heliograph-{os.getuid()}"


def _is_ours(path: Path) -> bool:
    """Whether nobody else can have put anything there."""
    found = path.lstat()
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid() and not found.st_mode & 0o077
