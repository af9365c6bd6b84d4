"""What a new configuration changes: which settings, and what parts have made ready for it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from heliograph.config.differences import Difference
from heliograph.config.settings import Config
from heliograph.settings.fields import How


def _nothing() -> None:
    pass


@dataclass(frozen=True, slots=True)
class Change:
    """What a part has made ready for another configuration.

    One of `apply` and `undo` is called, once, in this or a later turn.

    Attributes:
        apply: Makes it hold, beginning with what the part has then. It cannot fail and does not wait.
        undo: Gives up what was made ready.
        settle: Gives up for good what the configuration before had, such as data of what is gone: called when the
            change will not go back by itself any more, which is at once unless it is on trial. Other changes, back
            included, may have been applied since: it has to look at what the part has then.
    """

    apply: Callable[[], object]
    undo: Callable[[], object] = _nothing
    settle: Callable[[], object] = _nothing


@dataclass(frozen=True, slots=True)
class Plan:
    """A new configuration that every part has found good; nothing of it is applied yet.

    Attributes:
        config: What holds when it is applied: the new settings, and the old ones where they wait for a restart.
        differences: The settings that differ from those that hold now.
    """

    config: Config
    differences: Sequence[Difference]
    changes: Mapping[str, Change]
    waiting: Sequence[str]

    @property
    def now(self) -> list[str]:
        """Paths of the settings that change when it is applied."""
        return [one.path for one in self.differences if one.how is not How.RESTART]

    @property
    def restart(self) -> list[str]:
        """Paths of those that change with the next start, from this configuration or an earlier one."""
        return [one.path for one in self.differences if one.how is How.RESTART]

    @property
    def restart_now_too(self) -> list[str]:
        """Paths of those among them that did not wait for it before."""
        return [path for path in self.restart if path not in self.waiting]


def covers(paths: Sequence[str], path: str) -> bool:
    """Whether a path is one of these or below one; `*` stands for any name in between."""
    names = path.split(".")
    return any(_begins(names, one.split(".")) for one in paths)


def _begins(names: Sequence[str], pattern: Sequence[str]) -> bool:
    begin = names[: len(pattern)]
    return len(begin) == len(pattern) and all(want in ("*", name) for name, want in zip(begin, pattern, strict=True))
