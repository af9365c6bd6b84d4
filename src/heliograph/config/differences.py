"""What differs between two configurations: which settings, how each of them changes, and what holds until a restart."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from heliograph.config.settings import Config
from heliograph.settings.fields import AnyKind, How, Named, Overlays, Section, settings_of


@dataclass(frozen=True, slots=True)
class Difference:
    """One setting, or a group under a name that comes or goes.

    Attributes:
        old: Its value before; None where there was none.
        new: Its value then; None where there is none any more.
    """

    path: str
    kind: AnyKind
    old: Any
    new: Any
    how: How


def differences(old: Config, new: Config) -> list[Difference]:
    """In the order of their declarations."""
    return list(_in_group(old, new, "", How.RESTART))


def until_restart(old: Config, new: Config) -> Config:
    """The new configuration, with the old values of the settings that change with the next start."""
    merged = _merged(Section(Config), old, new, How.RESTART)
    assert isinstance(merged, Config)
    return merged


def _in_group(old: Any, new: Any, path: str, how: How) -> Iterator[Difference]:
    if old == new:
        return
    for name, setting in settings_of(type(old)).items():
        before, after = getattr(old, setting.field), getattr(new, setting.field)
        if before != after:
            yield from _of_setting(setting.kind, before, after, _below(path, name), setting.how or how)


def _of_setting(kind: AnyKind, old: Any, new: Any, path: str, how: How) -> Iterator[Difference]:
    if isinstance(kind, Section) and old is not None and new is not None:
        yield from _in_group(old, new, path, how)
    elif isinstance(kind, Named | Overlays):
        for name in {**old, **new}:
            place = _below(path, name)
            if name in old and name in new:
                yield from _in_group(old[name], new[name], place, how)
            else:
                yield Difference(place, kind, old.get(name), new.get(name), how)
    else:
        yield Difference(path, kind, old, new, how)


def _merged(kind: AnyKind, old: Any, new: Any, how: How) -> Any:
    if old == new:
        return old
    if isinstance(kind, Section) and old is not None and new is not None:
        found = settings_of(type(old)).values()
        return replace(
            old,
            **{
                one.field: _merged(one.kind, getattr(old, one.field), getattr(new, one.field), one.how or how)
                for one in found
            },
        )
    if isinstance(kind, Named | Overlays):
        return _merged_names(kind, old, new, how)
    return old if how is How.RESTART else new


def _merged_names(
    kind: Named | Overlays, old: Mapping[str, Any], new: Mapping[str, Any], how: How
) -> Mapping[str, Any]:
    merged: dict[str, Any] = {}
    for name in {**new, **old}:  # in the order of the new one
        if name in old and name in new:
            merged[name] = _merged(Section(kind.model), old[name], new[name], how)
        elif (how is How.RESTART) is (name in old):  # it goes later, or comes now
            merged[name] = old[name] if name in old else new[name]
    return merged


def _below(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name
