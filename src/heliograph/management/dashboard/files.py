"""The files of the dashboard: found once, compressed when they are first asked for, named by what they hold."""

import gzip
import hashlib
import mimetypes
import re
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import Final

ROOT: Final = Path(__file__).parent / "static"
_TYPES: Final = {".js": "text/javascript", ".mjs": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}
_IMPORT: Final = re.compile(r'^(?:import|export)\b[^"\n]*?(?:from )?"(\.{1,2}/[^"]+)";', re.MULTILINE)


class DashboardFiles:
    """All files below one folder; owned by the application.

    Args:
        root: The folder.

    Attributes:
        names: Their paths below the folder.
    """

    def __init__(self, root: Path = ROOT) -> None:
        self._root = root
        found = (path for path in root.rglob("*") if path.is_file() and path.suffix != ".mts")  # of the type check
        self.names = {path.relative_to(root).as_posix() for path in found}
        self._compressed: dict[str, bytes] = {}

    @cached_property
    def version(self) -> str:
        """A hash of all files and their names: with another one of them it is another one."""
        digest = hashlib.sha256()
        for name in sorted(self.names):
            data = (self._root / name).read_bytes()
            digest.update(f"{name} {len(data)} ".encode())
            digest.update(data)
        return digest.hexdigest()[:16]

    def data(self, name: str) -> bytes:
        """What a file holds."""
        return (self._root / name).read_bytes()

    def compressed(self, name: str) -> bytes:
        """What a file holds, with gzip."""
        if name not in self._compressed:
            self._compressed[name] = gzip.compress(self.data(name), 9, mtime=0)
        return self._compressed[name]

    def imported(self, names: list[str]) -> list[str]:
        """These modules and all that they import when they begin, so that a browser need not find them one by one."""
        found: dict[str, None] = {}
        waiting = list(reversed(names))
        while waiting:
            name = waiting.pop()
            if name not in found and name in self.names:
                found[name] = None
                folder = PurePosixPath(name).parent
                texts = _IMPORT.findall(self.data(name).decode())
                waiting += reversed([_joined(folder, text) for text in texts])
        return list(found)


def media_type(name: str) -> str:
    """The media type of a file, by its name."""
    suffix = PurePosixPath(name).suffix
    return _TYPES.get(suffix) or mimetypes.guess_type(name)[0] or "application/octet-stream"


def _joined(folder: PurePosixPath, text: str) -> str:
    steps: list[str] = []
    for step in (folder / text).parts:
        if step == "..":
            steps.pop()
        else:
            steps.append(step)
    return "/".join(steps)
