"""Reading a whole document: the functions that the rest of the program calls."""

from __future__ import annotations

import os
from collections.abc import Sequence

from heliograph.hocon.binding import Binder, OpenFile
from heliograph.hocon.errors import HoconError
from heliograph.hocon.evaluation import Evaluation
from heliograph.hocon.files import Files, LocalFiles, decode, read_text
from heliograph.hocon.grammar import parse_document
from heliograph.hocon.limits import DEFAULT_LIMITS, ParsingLimits
from heliograph.hocon.values import Node


def parse_text(
    text: str | bytes,
    *,
    name: str = "<text>",
    files: Files | None = None,
    limits: ParsingLimits = DEFAULT_LIMITS,
) -> Node:
    """Read a HOCON document; bytes must be UTF-8. Raises `HoconError` at the first mistake.

    Args:
        name: What positions and errors call it.
    """
    content = text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text
    return _read(decode(content, name, limits), OpenFile(name, "", None), (), files or LocalFiles(), limits)


def parse_file(path: str | os.PathLike[str], *, include_dirs: Sequence[str | os.PathLike[str]] = ()) -> Node:
    """Read a HOCON file; includes in it are relative to its directory. Raises `HoconError`."""
    files, limits = LocalFiles(), DEFAULT_LIMITS
    name = os.fspath(path)
    try:
        text = read_text(files, name, limits)
    except FileNotFoundError:
        raise HoconError(name, None, "there is no such file") from None
    return _read(text, OpenFile(name, files.directory_of(name), files.identity(name)), include_dirs, files, limits)


def _read(
    text: str,
    file: OpenFile,
    include_dirs: Sequence[str | os.PathLike[str]],
    files: Files,
    limits: ParsingLimits,
) -> Node:
    root, tokens = parse_document(text, file.path, limits)
    binder = Binder(files, [os.fspath(directory) for directory in include_dirs], limits)
    binder.count_text(len(text), tokens)
    binder.bind_document(root, file)
    return Evaluation(root, binder.references, binder.nodes, binder.text_length, limits).evaluate()
