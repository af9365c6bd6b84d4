"""The reference table of `docs/configuration.md`, generated from the settings themselves."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

from heliograph.config.fields import DESCRIPTION, KIND, ListOf, ListOfSections, Named, Overlays, Section
from heliograph.config.kinds import Kind
from heliograph.config.settings import Config


def describe() -> str:
    """Every setting as Markdown: a table per root with path, default, what is valid, and meaning."""
    blocks = []
    for root in dataclasses.fields(Config):
        kind = root.metadata[KIND]
        rows = list(_overlay_rows(kind, root.name) if isinstance(kind, Overlays) else _rows(kind, root.name))
        blocks.append(
            "\n".join(
                [
                    f"### `{root.name}`",
                    "",
                    root.metadata[DESCRIPTION],
                    "",
                    "| Setting | Default | Valid | Meaning |",
                    "| --- | --- | --- | --- |",
                    *rows,
                ]
            )
        )
    return "\n\n".join(blocks) + "\n"


def _rows(kind: Section | Named | ListOfSections, path: str) -> Iterator[str]:
    if isinstance(kind, ListOfSections):
        path += ".N"
    elif isinstance(kind, Named):
        path += ".NAME"
    for field in dataclasses.fields(kind.model):
        yield from _field_rows(field, f"{path}.{field.name}")


def _overlay_rows(kind: Overlays, path: str) -> Iterator[str]:
    for field in dataclasses.fields(kind.model):
        place = f"`{path}.NAME.{field.name}.*`"
        yield f"| {place} | as in `{field.name}` | as in `{field.name}` | {field.metadata[DESCRIPTION]} |"


def _field_rows(field: dataclasses.Field[Any], path: str) -> Iterator[str]:
    kind = field.metadata[KIND]
    if isinstance(kind, Section | Named | ListOfSections):
        yield from _rows(kind, path)
    else:
        cells = (f"`{path}`", f"`{_default(kind, field.default)}`", kind.expected, field.metadata[DESCRIPTION])
        yield "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _default(kind: Kind[Any] | ListOf[Any], value: Any) -> str:
    if isinstance(kind, ListOf):
        return f"[{', '.join(kind.kind.show(item) for item in value)}]"
    return kind.show(value)
