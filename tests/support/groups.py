"""A `DurableKernel` with durable shared groups: the production ones, on a disk that commits when a test says so."""

from pathlib import Path
from typing import Any

from heliograph.node.shared_groups import NodeGroups
from heliograph.session.session import Session
from heliograph.shared_groups.groups import DurableGroups
from heliograph.shared_groups.member import Member
from heliograph.shared_groups.membership import Declared
from heliograph.shared_groups.open_share import Entry
from heliograph.shared_groups.protocol import GroupName, Timers
from heliograph.storage.errors import StorageFullError
from support.durable import DurableKernel, FakeState
from support.reach import reachable


class GroupKernel(DurableKernel):
    """A node whose shared groups are kept as soon as a durable session joins them, or because they are declared.

    Args:
        declared: Groups that outlive their members, with whether they begin with the oldest message.

    Attributes:
        unreadable: The names of databases that the next start finds unreadable.
    """

    def __init__(
        self,
        path: Path,
        before: "GroupKernel | None" = None,
        *,
        declared: dict[GroupName, bool] | None = None,
        timers: Timers | None = None,
        passed_s: float = 0.0,
        **others: Any,
    ) -> None:
        self.group_disk: dict[bytes, bytes] = {} if before is None else before.group_disk
        self.declared = declared or {}
        self.timers = timers
        self.unreadable: tuple[str, ...] = ()
        self._found_unreadable = () if before is None else before.unreadable
        super().__init__(path, before, passed_s=passed_s, **others)
        self.again = lambda seconds: GroupKernel(
            path, self, declared=declared, timers=timers, passed_s=seconds, **others
        )
        self.node_groups.start(self.sessions)
        self.run()

    def before_load(self) -> None:
        self.group_state = FakeState(self.group_disk)
        self.group_state.name = "shared_groups"
        self.groups = DurableGroups(
            self.database,
            self.group_state,
            self,
            lambda: self.broker.now_us,
            lambda: self.broker.begin_turn(self.now_us),
            self.timers,
            [Declared(group, earliest) for group, earliest in self.declared.items()],
        )
        self.node_groups = NodeGroups(
            self.groups, self.group_state, lambda: "site", self.database, self.broker, self.alarms
        )
        self.node_groups.join(self.durable)
        for state in (self.state, self.group_state):
            if state.name in self._found_unreadable:
                state.fault = StorageFullError("there is no space", database=state.name)

    def commit(self, code: int = 0) -> None:
        """Finish the oldest commit of messages; whoever waits at the head is woken."""
        sink = self.sink
        batch = [message for ticket, message in sink.messages if ticket == sink.committed_ticket + 1]
        super().commit(code)
        if code == 0 and batch:
            self.node_groups.on_messages_committed()
            self.database.committed()
            super().run()

    def commit_groups(self) -> None:
        """Finish the oldest commit of the groups' progress."""
        self.group_state.commit()
        super(DurableKernel, self).run()

    def run(self) -> None:
        super().run()
        while getattr(self, "automatic", False) and hasattr(self, "group_state") and self._waiting():
            if self.group_state.waiting:
                self.group_state.commit()
            super().run()

    def _waiting(self) -> bool:
        return bool(self.group_state.waiting)

    def advance(self, seconds: float) -> None:
        """Let time pass, as the node's ticker tells it."""
        super().advance(seconds)
        self.node_groups.tick()
        self.run()

    def claimed_by(self, session: Session) -> set[bytes]:
        """The payloads that a session in memory is to be sent at QoS 2 and that nobody else gets any more."""
        held = reachable(self.groups, Member, within="heliograph.shared_groups")
        shares = [share for member in held if member.session is session for share in member.shares.all]
        entries = (entry for share in shares for entry in reachable(share, Entry, within="heliograph.shared_groups"))
        return {entry.stored.payload for entry in entries if entry.is_claimed}
