"""Settings of `backup`: backups that a node makes by itself."""

from dataclasses import dataclass

from heliograph.settings.fields import setting
from heliograph.settings.kinds import AnyText, Boolean, Duration, Integer, RefusedError, Size, Unless

_DAY = 86_400.0


@dataclass(frozen=True, slots=True)
class BackupConfig:
    """When a node backs itself up, and where to."""

    enable: bool = setting(Boolean(), False, "Whether backups are made by themselves; it needs a `place`.")
    place: str = setting(
        AnyText(),
        "",
        "Where to: a directory (an absolute path, on another disk), or a URI such as `s3://bucket/path`. Each node "
        "needs a place of its own.",
    )
    every: float = setting(Duration(60.0), _DAY, "How long after a backup the next one is made.")
    keep: int | None = setting(
        Unless(Integer(1), "infinity"), 7, "Backups that stay in `place`; older ones are removed after each backup."
    )
    secrets: bool = setting(
        Boolean(), False, "Whether tokens and private keys in the data directory are in them too, as with `--secrets`."
    )
    rate: int | None = setting(
        Unless(Size(64 * 1024), "infinity"), None, "Bytes a second that a backup reads and writes at most."
    )

    def __post_init__(self) -> None:
        if self.place and "://" not in self.place and not self.place.startswith("/"):
            raise RefusedError("a directory needs its absolute path", "place")
        if self.enable and not self.place:
            raise RefusedError("enable = true needs a place", "place")
