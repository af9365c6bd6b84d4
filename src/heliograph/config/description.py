"""The reference table of `docs/configuration.md`, generated from the declarations of settings."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
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
_TYPES_MIN: Final = 3  # of a root whose entries have types: what all of them have is said once
_HEAD_OF_GROUPS: Final = ("| Setting | Default | Valid | Meaning |", "| --- | --- | --- | --- |")


def describe() -> str:
    """Every setting as Markdown: a table per root with path, default, what is valid, meaning, and how it changes.

    What the entries of all types of a root have is said once.
    """
    blocks = []
    for name, root in settings_of(Config).items():
        assert root.how is not None, f"how {name} changes is not declared"
        blocks.append("\n".join([f"### `{name}`", "", root.description, "", *HEAD, *_rows(root.kind, name, root.how)]))
    return "\n\n".join(blocks) + "\n"


def every_setting() -> Iterator[str]:
    """A line for each setting, also for one that the entries of all types have."""
    for name, root in settings_of(Config).items():
        assert root.how is not None
        yield from _overlaid(root.kind, name) if isinstance(root.kind, Overlays) else rows(root.kind, name, root.how)


def _rows(kind: AnyKind, path: str, how: How) -> Iterator[str]:
    if isinstance(kind, Overlays):
        yield from _overlaid(kind, path)
    elif isinstance(kind, Section) and (common := _common(kind)):
        yield from _settings(common.values(), f"{path}.TYPE.NAME", how)
        for name, setting in settings_of(kind.model).items():
            if isinstance(setting.kind, Named):
                own = [one for one in settings_of(setting.kind.model).values() if one != common.get(one.name)]
                yield from _settings(own, f"{path}.{name}.NAME", setting.how or how)
            else:
                yield from _settings([setting], path, how)
    else:
        yield from rows(kind, path, how)


def _overlaid(kind: Overlays, path: str) -> Iterator[str]:
    for name, setting in settings_of(kind.model).items():
        yield f"| `{path}.NAME.{name}.*` | as in `{name}` | as in `{name}` | {setting.description} | as in `{name}` |"


def _common(root: Section) -> dict[str, Setting]:
    """The settings that the entries of all types of a root have; none for a root that has no types."""
    named = [one.kind for one in settings_of(root.model).values() if isinstance(one.kind, Named)]
    if len(named) < _TYPES_MIN:
        return {}
    first, *others = (settings_of(kind.model) for kind in named)
    return {name: one for name, one in first.items() if all(other.get(name) == one for other in others)}


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
    yield from _settings(settings_of(kind.model).values(), path, how)


def _settings(settings: Iterable[Setting], path: str, how: How) -> Iterator[str]:
    for setting in settings:
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
