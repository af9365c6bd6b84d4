"""Settings of `durable_shared_groups`: shared groups whose messages come from storage."""

from dataclasses import dataclass

from heliograph.settings.fields import section_list, setting
from heliograph.settings.how import How
from heliograph.settings.kinds import Boolean, Choice, Duration, FilterText, RefusedError, Text


@dataclass(frozen=True, slots=True)
class DeclaredGroup:
    """A group that outlives its members."""

    group: str = setting(
        Text("the name of a shared group, without / + #", r"[^/+#]+"),
        "",
        "Its name: `g` for members that subscribe to `$share/g/...`, `$queue` for those of `$queue/...`.",
    )
    topic: str = setting(FilterText(), "", "Its topic filter, with the mountpoint of its members if they have one.")
    start: str = setting(
        Choice("now", "earliest"),
        "now",
        "Where a new group begins: at its declaration, or at the oldest stored message.",
    )

    def __post_init__(self) -> None:
        missing = [name for name, value in (("group", self.group), ("topic", self.topic)) if not value]
        if len(missing) == 1:
            raise RefusedError(f"a declared group needs {missing[0]} too")


@dataclass(frozen=True, slots=True)
class SharedGroupsConfig:
    """Shared groups with durable members, and those that are declared."""

    enable: bool = setting(
        Boolean(),
        True,
        "Whether groups that a durable session joins get their stored messages from storage.",
        how=How.RESTART,
    )
    declared: tuple[DeclaredGroup, ...] = section_list(
        DeclaredGroup, "Groups that outlive their members.", how=How.RESTART
    )
    checkpoint_interval: float = setting(
        Duration(0.01),
        0.2,
        "How often progress at QoS 0 and 1 is saved; after a crash, messages since then are sent again.",
    )
    stall_timeout: float = setting(
        Duration(0.5), 5.0, "A member that takes nothing of what waits for it for so long gives its share to others."
    )
    revoke_timeout: float = setting(
        Duration(0.5),
        10.0,
        "How long a member may take to acknowledge what it has of a share that others get; then they get that too.",
    )
