"""The site id: who a node is, whatever it is called. Random, made once, kept beside the databases."""

import os
import secrets
from pathlib import Path


def read_or_make_site_id(path: Path) -> str:
    """Read the site id in a directory, or make one so that a crash leaves either none or a whole one.

    Raises:
        OSError: It cannot be read or written.
    """
    file = path / "site_id"
    if file.is_file():
        return file.read_text().strip()
    path.mkdir(parents=True, exist_ok=True)
    site_id = secrets.token_hex(8)
    draft = path / "site_id.new"
    with draft.open("w") as out:
        out.write(site_id + "\n")
        out.flush()
        os.fsync(out.fileno())
    draft.replace(file)
    return site_id
