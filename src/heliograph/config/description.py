"""The reference table of `docs/configuration.md`, generated from the declarations of settings."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from heliograph.config.settings import Config
from heliograph.settings.fields import (
    AnyKind,
    How,
    ListOf,
    ListOfSections,
    ListOfVariants,
    Named,
    Overlays,
    Section,
    Setting,
    settings_of,
)
from heliograph.settings.kinds import Kind, Unless

#: The head of a table whose lines `rows` gives.
HEAD: Final = ("| Setting | Default | Valid | Meaning | Changes |", "| --- | --- | --- | --- | --- |")
_SWITCH: Final = "none | true or false | Whether it is used; without this, it is where any of its settings is given."
_HEAD_OF_GROUPS: Final = ("| Setting | Default | Valid | Meaning |", "| --- | --- | --- | --- |")


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


def table(*models: type[Any]) -> str:
    """Required settings come first; groups within these groups are named only."""
    settings = [setting for model in models for setting in settings_of(model).values()]
    ordered = sorted(settings, key=lambda setting: not setting.is_required)
    return "\n".join([*_HEAD_OF_GROUPS, *dict.fromkeys(_row(setting, setting.name) for setting in ordered)]) + "\n"


def rows(kind: AnyKind, path: str, how: How) -> Iterator[str]:
    """A line for each setting below `path`, in groups too; `how` holds for those that do not say it themselves."""
    if isinstance(kind, ListOfSections):
        path += ".N"
    elif isinstance(kind, Named):
        path += ".NAME"
    if isinstance(kind, Kind | ListOf):
        return
    if isinstance(kind, ListOfVariants):
        for model in kind.models:
            yield from rows(Section(model), f"{path}.N[{kind.name_of(model)}]", how)
        return
    if isinstance(kind, Section) and kind.has_switch:
        yield f"| `{path}.enable` | {_SWITCH} | {how} |"
    for setting in settings_of(kind.model).values():
        place = f"{path}.{setting.name}"
        if isinstance(setting.kind, Section | Named | ListOfSections) or _is_described_here(setting.kind):
            yield from rows(setting.kind, place, setting.how or how)
        else:
            yield f"{_row(setting, place)} {setting.how or how} |"


def _is_described_here(kind: AnyKind) -> bool:
    return isinstance(kind, ListOfVariants) and not kind.described_at


def _row(setting: Setting, path: str) -> str:
    cells = (f"`{path}`", _default(setting), setting.kind.expected, setting.description)
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _default(setting: Setting) -> str:
    kind, value = setting.kind, setting.default
    if setting.is_required:
        return "required"
    if not isinstance(kind, Kind | ListOf | ListOfVariants) or (value is None and not isinstance(kind, Unless)):
        return "none"
    return f"`{kind.show(value)}`"
