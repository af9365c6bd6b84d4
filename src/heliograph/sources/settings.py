"""What a node gives its process of sources: a JSON file of where the node is, and of the sources."""

import json
from pathlib import Path
from typing import Any

import msgspec

from heliograph.hocon.document import parse_text
from heliograph.settings.outbound import OutboundConfig
from heliograph.settings.reading import read_group


class OneSource(msgspec.Struct, frozen=True, kw_only=True):
    """One source.

    Attributes:
        kind: Its type.
        settings: Those of its type, with secrets.
    """

    kind: str
    settings: dict[str, Any]

    def __repr__(self) -> str:
        return f"OneSource({self.kind})"


class SourcesFile(msgspec.Struct, frozen=True, kw_only=True):
    """All that the process gets.

    Attributes:
        socket: The path of the node's control socket.
        sources: By their ids.
        paused: Ids of sources that take nothing at present, and whose sessions elsewhere are kept.
    """

    socket: str
    outbound: dict[str, Any]
    sources: dict[str, OneSource]
    paused: list[str] = msgspec.field(default_factory=list)


def read_file(file: Path) -> SourcesFile:
    """Read the settings.

    Raises:
        OSError: The file cannot be read.
        ValueError: It is not one of a node.
    """
    return msgspec.json.decode(file.read_bytes(), type=SourcesFile)


def outbound_of(document: dict[str, Any]) -> OutboundConfig:
    """Where the process may connect to; raises `ValueError`."""
    settings, problems = read_group(OutboundConfig, parse_text(json.dumps(document)), ("outbound",))
    if settings is None or problems:
        raise ValueError("; ".join(f"{one.path}: {one.message}" for one in problems))
    return settings
