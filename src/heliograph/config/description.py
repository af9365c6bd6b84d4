"""The reference table of `docs/configuration.md`, generated from the settings themselves."""

from __future__ import annotations

from collections.abc import Iterator

from heliograph.config.settings import Config
from heliograph.settings.description import HEAD, rows
from heliograph.settings.fields import AnyKind, Overlays, settings_of
from heliograph.settings.how import How


def describe() -> str:
    """Every setting as Markdown: a table per root with path, default, what is valid, meaning, and how it changes."""
    blocks = []
    for name, root in settings_of(Config).items():
        assert root.how is not None, f"how {name} changes is not declared"
        blocks.append("\n".join([f"### `{name}`", "", root.description, "", *HEAD, *_rows(root.kind, name, root.how)]))
    return "\n\n".join(blocks) + "\n"


def _rows(kind: AnyKind, path: str, how: How) -> Iterator[str]:
    if not isinstance(kind, Overlays):
        yield from rows(kind, path, how)
        return
    for name, setting in settings_of(kind.model).items():
        yield f"| `{path}.NAME.{name}.*` | as in `{name}` | as in `{name}` | {setting.description} | as in `{name}` |"
