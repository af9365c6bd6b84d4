"""The token with which programs of the node's user on its machine read stored messages, where no others are described.

The node makes it in its data directory, which only its user may read, and notes where that is in a directory of the
user, for the address that the reader listens at. So only a client of the same user finds the token by
the address. A note may outlive its node, and the port may then be another user's: a token is only given out while all
that listens there is this user's, which Linux tells.
"""

import ipaddress
import os
import secrets
import stat
from contextlib import suppress
from pathlib import Path
from typing import Final

from heliograph.storage.durable_files import write_durably
from heliograph.storage.reader.listening_sockets import listening_sockets

TEMPORARY = Path("/tmp")  # TMPDIR may not be the same for node and client
FILE: Final = "flight_token"
_TOKEN_BYTES: Final = 32
_LOCALHOST: Final = ("127.0.0.1", "::1")


def read_or_make_token(data_dir: Path) -> str:
    """The token of a node; made at its first start, in a file with mode 0600."""
    file = data_dir / FILE
    with suppress(FileNotFoundError):
        text = file.read_text("ascii").strip()
        if text:
            file.chmod(0o600)
            return text
    token = secrets.token_urlsafe(_TOKEN_BYTES)
    write_durably(file, f"{token}\n".encode(), mode=0o600)
    return token


def announce(bind: str, data_dir: Path) -> None:
    """Note where the token for a reader is. Again from time to time: what is old in such a directory may be removed."""
    notes = _notes()
    notes.mkdir(mode=0o700, exist_ok=True)
    if not _is_ours(notes):
        raise PermissionError(f"{notes} is another user's, or open to others")
    for name in _names(bind):
        draft = notes / f".{name}.{os.getpid()}"
        draft.write_text(f"{(data_dir / FILE).absolute()}\n")
        draft.replace(notes / name)


def withdraw(bind: str, data_dir: Path) -> None:
    """Take the notes away, if they are still of this node."""
    for name in _names(bind):
        with suppress(OSError):
            note = _notes() / name
            if note.read_text().strip() == str((data_dir / FILE).absolute()):
                note.unlink()


def find_token(endpoint: str) -> str | None:
    """The token for a reader on this machine, if a node of this user has noted it and listens there.

    Args:
        endpoint: HOST:PORT, with or without a scheme.
    """
    address = endpoint.rpartition("://")[2]
    with suppress(OSError):
        if not _is_ours(_notes()):
            return None
        for name in _names(address):
            with suppress(FileNotFoundError):
                token = Path((_notes() / name).read_text().strip()).read_text().strip()
                return token if token and _listens_only_for_us(address) else None
    return None


def _names(address: str) -> list[str]:
    """Of the notes for an address of this machine; none for another."""
    port = address.rpartition(":")[2]
    return [f"{host}:{port}" for host in _hosts(address)]


def _hosts(address: str) -> tuple[str, ...]:
    """The addresses of this machine that a HOST:PORT means; `127.example.org` is not one of them."""
    host = address.rpartition(":")[0].removeprefix("[").removesuffix("]")
    if host == "localhost":
        return _LOCALHOST
    try:
        found = ipaddress.ip_address(host)
    except ValueError:
        return ()
    return (str(found),) if found.is_loopback else ()


def _listens_only_for_us(address: str) -> bool:
    """Whether something of this user listens at an address, and nothing of another where a connection to it may come.

    Raises:
        OSError: The system does not tell.
    """
    port = address.rpartition(":")[2]
    reached = {ipaddress.ip_address(host) for host in _hosts(address)}
    users = {
        found.user
        for found in listening_sockets()
        if str(found.port) == port and (found.host in reached or found.host.is_unspecified)
    }
    return users == {os.getuid()}


def _notes() -> Path:
    return TEMPORARY / f"heliograph-{os.getuid()}"


def _is_ours(path: Path) -> bool:
    """Whether only our user can have put anything there."""
    found = path.lstat()
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid() and not found.st_mode & 0o077
