"""Who changes a configuration, on which terms, and what came of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from heliograph.config_changes.errors import ChangeConflictError, ConfigRefusedError
from heliograph.config_changes.planning import PlannedSetting

_CONFIRM_S_MAX: Final = 86_400.0


@dataclass(frozen=True, slots=True)
class Author:
    """The author of a change (`alice (uid 1000)`), and from where (`control socket, pid 4711`)."""

    who: str
    origin: str

    @property
    def is_api_key(self) -> bool:
        """Whether the caller of the HTTP API is a key: the management process says so with the first word."""
        return self.who.startswith("api_key ")


@dataclass(frozen=True, slots=True)
class Terms:
    """What a change is made with.

    Attributes:
        force: Whether it is also made where a higher layer hides some of it.
        revision: The revision that it was made for; it is refused if there is a newer one. None: for any.
        confirm_s: In how many seconds it has to be confirmed to stay; None: it stays.
    """

    force: bool = False
    revision: int | None = None
    confirm_s: float | None = None
    comment: str = ""

    def check(self, present: int) -> None:
        """`ChangeConflictError` if another revision is present, `ConfigRefusedError` for a bad `confirm_s`."""
        if self.revision is not None and self.revision != present:
            raise ChangeConflictError(
                f"the change was made for revision {self.revision}, but revision {present} holds now: "
                "look at what changed, and ask again"
            )
        if self.confirm_s is not None and not 1 <= self.confirm_s <= _CONFIRM_S_MAX:
            raise ConfigRefusedError(
                [f"a change can wait from 1 to {_CONFIRM_S_MAX:.0f} seconds to be confirmed, found {self.confirm_s:g}"]
            )


#: Whatever holds now, for good.
ANY_TERMS: Final = Terms()


@dataclass(frozen=True, slots=True)
class ChangeOutcome:
    """What a change did, or would do.

    Attributes:
        restart: Paths of all settings that wait for the next start, from this change or an earlier one.
        failed: The parts that could not apply it, which is a fault of the program, each with what it raised.
        confirm_until: When it goes back if it is not confirmed, in seconds since the epoch; None: it stays.
        is_new: Whether it made the revision.
    """

    revision: int
    settings: Sequence[PlannedSetting] = ()
    restart: Sequence[str] = ()
    failed: Mapping[str, str] = field(default_factory=dict)
    confirm_until: float | None = None
    is_new: bool = False
