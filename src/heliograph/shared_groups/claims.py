"""Messages at QoS 2 that sessions have as their own, until their groups know that for good."""

from collections.abc import Callable

from heliograph.shared_groups.protocol import GroupName, MessageId, Share

OnKnown = Callable[[], object]
OfGroup = dict[Share, dict[MessageId, OnKnown]]


class Claims:
    """Such messages by group and share, each with what is called once its group knows it; owned by the registry."""

    def __init__(self) -> None:
        self._groups: dict[GroupName, OfGroup] = {}

    def __contains__(self, group: GroupName) -> bool:
        return group in self._groups

    def add(self, group: GroupName, share: Share, message: MessageId, on_known: OnKnown) -> None:
        """A session has a message, which its group may not know."""
        self._groups.setdefault(group, {}).setdefault(share, {})[message] = on_known

    def take(self, group: GroupName) -> OfGroup:
        """The claims on messages of a group, which are being saved with its progress."""
        return self._groups.pop(group, {})

    def settle(self, group: GroupName, claims: OfGroup, is_saved: bool) -> None:
        """Claims that were taken are saved, or are claims still."""
        for share, messages in claims.items():
            for message, on_known in messages.items():
                if is_saved:
                    on_known()
                else:
                    self.add(group, share, message, on_known)

    def __repr__(self) -> str:
        return f"Claims({len(self._groups)} groups)"
