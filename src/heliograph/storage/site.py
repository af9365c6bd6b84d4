"""The site id: identifies a storage, whatever the node's name. Random, made once, kept beside the databases."""

import re
import secrets
from contextlib import suppress
from pathlib import Path
from typing import Final

from heliograph.storage.durable_files import force_to_disk, write_durably
from heliograph.storage.errors import StorageDamagedError
from heliograph.storage.register import Register

_FILE: Final = "site_id"
_SITE_ID: Final = re.compile(r"[0-9a-f]{16}")
_SHOWN_MAX: Final = 40


def read_or_make_site_id(path: Path) -> str:
    """Read the site id in a directory, or make one where there are no databases yet.

    Raises:
        StorageDamagedError: The file holds something else, or was there before.
    """
    site_id = read_site_id(path)
    if site_id is not None:
        _register(path)
        return site_id
    if is_site_id_registered(path):
        raise _damaged(path, "the file was made here before, and it is missing now")
    site_id = secrets.token_hex(8)
    write_site_id(path, site_id)
    return site_id


def read_site_id(path: Path) -> str | None:
    """The site id in a directory, None where there is no such file."""
    try:
        text = (path / _FILE).read_text("utf-8", "replace").strip()
    except FileNotFoundError:
        return None
    if not _SITE_ID.fullmatch(text):
        raise _damaged(path, f"the file holds {text[:_SHOWN_MAX]!r}, and a site id is 16 hexadecimal digits")
    return text


def is_site_id_registered(path: Path) -> bool:
    """Whether a directory had a site id, so that it must have one."""
    return Register(path.parent).has(path / _FILE)


def write_site_id(path: Path, site_id: str) -> None:
    """Make this the site id of a directory, so that a crash leaves the one before or this."""
    write_durably(path / _FILE, f"{site_id}\n".encode())  # before the register knows it
    Register(path.parent).add(path / _FILE)


def _register(path: Path) -> None:
    """Guard an id that an earlier version made, or that a crash kept from the register."""
    if not is_site_id_registered(path):
        with suppress(OSError):  # the id can be used all the same, and the next start tries again
            force_to_disk(path)
            Register(path.parent).add(path / _FILE)


def _damaged(path: Path, problem: str) -> StorageDamagedError:
    return StorageDamagedError(f"who this node is, is not known: {problem}", database="", path=path / _FILE)
