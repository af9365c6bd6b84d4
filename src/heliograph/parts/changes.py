"""What a new configuration changes: which settings, which of them at once, and which with the next start."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace

from heliograph.config import Config


def _nothing() -> None:
    pass


@dataclass(frozen=True, slots=True)
class Change:
    """What a part has made ready for another configuration. One of the two is called, once, in the same turn.

    Attributes:
        apply: Has it hold. It cannot fail and does not wait.
        undo: Gives up what was made ready.
    """

    apply: Callable[[], object]
    undo: Callable[[], object] = _nothing


@dataclass(frozen=True, slots=True)
class Plan:
    """A new configuration that every part has found good; nothing of it is applied yet.

    Attributes:
        config: What holds when it is applied: the new settings where they are live, the old ones elsewhere.
        live: Paths of the settings that change then.
        restart: Paths of those that differ, and change with the next start.
        changes: What parts have made ready for it, by their names.
    """

    config: Config
    live: Sequence[str]
    restart: Sequence[str]
    changes: Mapping[str, Change]


def overlaid(old: Config, new: Config, is_live: Callable[[str], bool]) -> Config:
    """The old configuration with those settings of the new one that are live.

    Args:
        is_live: Asked once about the path of each setting that differs.
    """
    merged = _merged(old, new, "", is_live)
    assert isinstance(merged, Config)
    return merged


def covers(paths: Sequence[str], path: str) -> bool:
    """Whether a path is one of these or below one; `*` stands for any name in between."""
    names = path.split(".")
    return any(_begins(names, one.split(".")) for one in paths)


def _begins(names: Sequence[str], pattern: Sequence[str]) -> bool:
    begin = names[: len(pattern)]
    return len(begin) == len(pattern) and all(want in ("*", name) for name, want in zip(begin, pattern, strict=True))


def _merged(old: object, new: object, path: str, is_live: Callable[[str], bool]) -> object:
    if old == new:
        return old
    if is_dataclass(old) and type(old) is type(new) and not isinstance(old, type):
        values = {
            field.name: _merged(getattr(old, field.name), getattr(new, field.name), _below(path, field.name), is_live)
            for field in fields(old)
        }
        return replace(old, **values)
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        return _merged_mapping(old, new, path, is_live)
    return new if is_live(path) else old


def _merged_mapping(
    old: Mapping[str, object], new: Mapping[str, object], path: str, is_live: Callable[[str], bool]
) -> Mapping[str, object]:
    merged: dict[str, object] = {}
    for name in {**new, **old}:  # in the order of the new one
        below = _below(path, name)
        if name in old and name in new:
            merged[name] = _merged(old[name], new[name], below, is_live)
        elif is_live(below) is (name in new):  # it comes now, or goes later
            merged[name] = new[name] if name in new else old[name]
    return merged


def _below(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name
