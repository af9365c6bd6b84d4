"""Why a change of the configuration is not made; everything is then as it was, on the disk too."""

from collections.abc import Sequence
from typing import ClassVar


class ConfigChangeError(Exception):
    """A change that is not made, for the reason that the text says."""

    code: ClassVar[str] = "config_change"


class ConfigRefusedError(ConfigChangeError):
    """The configuration that would result cannot be used; each reason has its file and line where there is one."""

    code = "config_change_refused"

    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = tuple(problems)


class GroupMissingError(ConfigChangeError):
    code = "not_found"

    def __init__(self, what: str, name: str, names: Sequence[str]) -> None:
        there_are = ", ".join(names[:20]) or "none"
        super().__init__(f"there is no {what} {name[:200]!r}; there are: {there_are}")


class GroupExistsError(ConfigChangeError):
    code = "already_exists"

    def __init__(self, what: str, name: str) -> None:
        super().__init__(f"the {what} {name!r} is there already: change it, or delete it first")


class HiddenChangeError(ConfigChangeError):
    """A higher layer sets what the change is to set."""

    code = "config_change_hidden"


class ChangeConflictError(ConfigChangeError):
    """The configuration is not the one that the change was made for, or another change has to be settled first."""

    code = "config_change_conflict"


class NotForKeysError(ConfigChangeError):
    """An API key changes who may manage the node."""

    code = "not_for_api_keys"


class NoRevisionError(ConfigChangeError):
    code = "config_no_revision"


class ConfigWriteError(ConfigChangeError):
    code = "config_change_not_written"


def reasons(error: Exception) -> list[str]:
    """For people; an `ExceptionGroup` says what its exceptions say."""
    if isinstance(error, ExceptionGroup):
        return [text for one in error.exceptions for text in reasons(one)]
    code = getattr(error, "code", "")
    text = str(error) or type(error).__name__
    return [f"[{code}] {text}" if code else f"{type(error).__name__}: {text}"]
