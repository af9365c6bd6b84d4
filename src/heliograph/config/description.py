"""The reference table of `docs/configuration.md`, generated from the settings themselves."""

from __future__ import annotations

from collections.abc import Iterator

from heliograph.config.settings import Config
from heliograph.settings.description import HEAD, rows
from heliograph.settings.fields import Overlays, settings_of


def describe() -> str:
    """Every setting as Markdown: a table per root with path, default, what is valid, and meaning."""
    blocks = []
    for name, root in settings_of(Config).items():
        found = _overlay_rows(root.kind, name) if isinstance(root.kind, Overlays) else rows(root.kind, name)
        blocks.append("\n".join([f"### `{name}`", "", root.description, "", *HEAD, *found]))
    return "\n\n".join(blocks) + "\n"


def _overlay_rows(kind: Overlays, path: str) -> Iterator[str]:
    for name, setting in settings_of(kind.model).items():
        yield f"| `{path}.NAME.{name}.*` | as in `{name}` | as in `{name}` | {setting.description} |"
