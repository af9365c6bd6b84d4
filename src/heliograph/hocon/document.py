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
    directory: str = "",
    include_dirs: Sequence[str | os.PathLike[str]] = (),
    files: Files | None = None,
    limits: ParsingLimits = DEFAULT_LIMITS,
) -> Node:
    """Read a HOCON document.

    Args:
        text: The document; bytes must be UTF-8.
        name: What positions and errors call it.
        directory: Where its includes are looked up first; empty for the working directory.
        include_dirs: Further directories for includes, in order.
        files: Where included files are read from; the disk by default.
        limits: Caps on size, nesting and expansion.

    Returns:
        The root object, every substitution resolved.

    Raises:
        HoconError: At the first mistake.
    """
    content = text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text
    return _read(
        decode(content, name, limits), OpenFile(name, directory, None), include_dirs, files or LocalFiles(), limits
    )


def parse_file(
    path: str | os.PathLike[str],
    *,
    include_dirs: Sequence[str | os.PathLike[str]] = (),
    files: Files | None = None,
    limits: ParsingLimits = DEFAULT_LIMITS,
) -> Node:
    """Read a HOCON file; includes in it are relative to its directory.

    Raises:
        HoconError: The file is missing or unreadable, or at the first mistake in it or in a file that it includes.
    """
    files = files or LocalFiles()
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
