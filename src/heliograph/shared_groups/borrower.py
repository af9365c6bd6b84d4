"""A borrower: one shared subscription of a connected client, towards the leader of its group.

A state machine like the leader: its inputs are messages, the time, and what the session did; it answers with messages
for the leader in `outgoing` and with events for the session in `events`. Its status goes one way only:

    connecting -> connected -> unsubscribing -> ended

An inconsistency ends it, and its member makes another with another id, which the leader does not confuse
with it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from heliograph.shared_groups import protocol as p
from heliograph.shared_groups.protocol import BorrowerId, GroupName, Progress, Share, Timers, ToBorrower, ToLeader

CONNECTING: Final = "connecting"
CONNECTED: Final = "connected"
UNSUBSCRIBING: Final = "unsubscribing"
ENDED: Final = "ended"


@dataclass(frozen=True, slots=True)
class Granted:
    """Read a share from here on."""

    share: Share
    progress: Progress


@dataclass(frozen=True, slots=True)
class Revoking:
    """Read nothing more of a share, and call `finish` when all that was taken of it is acknowledged."""

    share: Share


@dataclass(frozen=True, slots=True)
class Overdue:
    """That has taken too long: call `finish` (or `disconnect`, if no share is named) with how far it is now."""

    share: Share | None


@dataclass(frozen=True, slots=True)
class Forgotten:
    """Forget a share."""

    share: Share


@dataclass(frozen=True, slots=True)
class ProgressSaved:
    """All progress that was reported up to a sequence number is durable."""

    sequence: int


@dataclass(frozen=True, slots=True)
class Invalidated:
    """It has ended, and another must replace it; what was taken and not reported will be granted again."""


Event = Granted | Revoking | Overdue | Forgotten | ProgressSaved | Invalidated


class _Held:
    __slots__ = ("due_us", "is_final", "number", "progress", "sequence")

    def __init__(self, number: int, progress: Progress) -> None:
        self.number = number
        self.progress = progress
        self.due_us = 0  # while it is revoking: when that has taken too long
        self.sequence = 0  # of the message that said so last
        self.is_final = False


class Borrower:
    """Lives from a client's coming, or its SUBSCRIBE, to its leaving or its UNSUBSCRIBE; owned by the member."""

    __slots__ = (
        "_find_us",
        "_fresh",
        "_ping_us",
        "_ready",
        "_resend_us",
        "_revoking",
        "_sequence",
        "_shares",
        "_timeout_us",
        "_timers",
        "_unsaved",
        "_unsubscribed_us",
        "events",
        "group",
        "id",
        "outgoing",
        "status",
    )

    def __init__(self, group: GroupName, id_: BorrowerId, timers: Timers, now_us: int) -> None:
        self.group = group
        self.id = id_
        self.status = CONNECTING
        self.outgoing: list[ToLeader] = [p.LeaderWanted()]
        self.events: list[Event] = []
        self._timers = timers
        self._shares: dict[Share, _Held] = {}
        self._revoking: dict[Share, _Held] = {}
        self._fresh: dict[Share, _Held] = {}  # what the last message did not say yet
        self._unsaved: dict[Share, _Held] = {}  # what was said, and is not known to be saved
        self._sequence = 0
        self._ready = True
        self._find_us = now_us + timers.find_leader_us
        self._ping_us = now_us + timers.ping_us
        self._timeout_us: int | None = None  # when the wait for an answer to a ping ends
        self._resend_us: int | None = None
        self._unsubscribed_us: int | None = None  # when the wait for the session ends

    # --- what the leader says

    def on_message(self, now_us: int, message: ToBorrower) -> None:
        if self.status == ENDED:
            return
        if isinstance(message, p.Invalidate):
            self._invalidate()
        elif isinstance(message, p.LeaderConnectResponse):
            self._on_connected(now_us)
        elif self.status == CONNECTING:
            return
        elif isinstance(message, p.Saved):
            self._on_saved(now_us, message)
        elif isinstance(message, p.PingResponse):
            self._timeout_us = None
        elif self.status == UNSUBSCRIBING:
            return
        elif isinstance(message, p.Grant):
            self._on_grant(now_us, message)
        elif isinstance(message, p.Revoke):
            self._on_revoke(now_us, message)
        else:
            self._on_revoked(message)

    # --- what the session says

    def report(self, now_us: int, progress: Mapping[Share, Progress]) -> int:
        """How far shares are: the sequence number that says so when it is saved."""
        for share, reached in progress.items():
            held = self._shares.get(share)
            if held is not None and not held.is_final:
                held.progress = reached
                self._fresh[share] = held
        return self._update(now_us)

    def finish(self, now_us: int, shares: Mapping[Share, Progress]) -> int:
        """The session is done with shares, which were revoked or have ended: the sequence number that says so."""
        for share, reached in shares.items():
            held = self._shares.get(share)
            if held is not None and not held.is_final:
                held.progress = reached
                held.is_final = True
                self._fresh[share] = held
                self._revoking.pop(share, None)
        return self._update(now_us)

    def set_ready(self, now_us: int, ready: bool) -> None:
        if ready != self._ready:
            self._ready = ready
            if self.status == CONNECTED:
                self._ping(now_us)

    def unsubscribe(self, now_us: int) -> None:
        """The subscription ends, and nothing more is taken: `disconnect` follows when the rest is acknowledged."""
        if self.status != ENDED:
            self.status = UNSUBSCRIBING
            self._unsubscribed_us = now_us + self._timers.revoke_timeout_us

    def disconnect(self, progress: Mapping[Share, Progress]) -> int:
        """It ends here, and this is how far its shares are: the sequence number of its last message."""
        for share, reached in progress.items():
            held = self._shares.get(share)
            if held is not None and not held.is_final:
                held.progress = reached
        self._sequence += 1
        held_ones = {share: (held.number, held.progress) for share, held in self._shares.items()}
        self.outgoing.append(p.Disconnect(self._sequence, held_ones))
        self._end()
        return self._sequence

    def tick(self, now_us: int) -> None:
        if self.status == ENDED:
            return
        if self._unsubscribed_us is not None and self._unsubscribed_us <= now_us:
            self.events.append(Overdue(None))
            return
        if self.status == CONNECTING:
            if self._find_us <= now_us:
                self._find_us = now_us + self._timers.find_leader_us
                self.outgoing.append(p.LeaderWanted())
            return
        if self._timeout_us is not None and self._timeout_us <= now_us:
            self._invalidate()
            return
        if self._ping_us <= now_us:
            self._ping(now_us)
        if self._resend_us is not None and self._resend_us <= now_us:
            self._update(now_us, is_whole=True)
        for share, held in self._revoking.items():
            if held.due_us <= now_us:
                self.events.append(Overdue(share))

    @property
    def is_quiet(self) -> bool:
        """Whether no answer is awaited on either side, and all that was reported is saved."""
        return (
            self.status == CONNECTED and self._resend_us is None and not (self._fresh or self.outgoing or self.events)
        )

    # --- inside

    def _on_connected(self, now_us: int) -> None:
        if self.status == CONNECTING:
            self.status = CONNECTED
            self._ping_us = now_us + self._timers.ping_us
            if not self._ready:
                self._ping(now_us)

    def _on_grant(self, now_us: int, message: p.Grant) -> None:
        held = self._shares.get(message.share)
        if held is None:
            held = self._shares[message.share] = _Held(message.number, message.progress)
            self.events.append(Granted(message.share, message.progress))
        elif message.number > held.number:  # it still has what the leader has taken away
            self._invalidate()
            return
        elif message.number < held.number:
            return
        self._fresh[message.share] = held  # the leader has not heard of it
        self._update(now_us)

    def _on_revoke(self, now_us: int, message: p.Revoke) -> None:
        held = self._shares.get(message.share)
        if held is None:  # the grant was lost, so nothing was taken
            self.outgoing.append(p.RevokeFinished(message.share, message.number))
        elif held.is_final:
            self._fresh[message.share] = held
            self._update(now_us)
        elif held.number == message.number and message.share not in self._revoking:
            held.due_us = now_us + self._timers.revoke_timeout_us
            self._revoking[message.share] = held
            self.events.append(Revoking(message.share))

    def _on_revoked(self, message: p.Revoked) -> None:
        held = self._shares.get(message.share)
        if held is not None and held.number == message.number:
            if not held.is_final:
                self._invalidate()
                return
            for shares in (self._shares, self._revoking, self._fresh, self._unsaved):
                shares.pop(message.share, None)
            self.events.append(Forgotten(message.share))
        self.outgoing.append(p.RevokeFinished(message.share, message.number))

    def _on_saved(self, now_us: int, message: p.Saved) -> None:
        self._resend_us = now_us + self._timers.resend_us
        for share in [share for share, held in self._unsaved.items() if held.sequence <= message.sequence]:
            del self._unsaved[share]
        if message.sequence == self._sequence:
            self._resend_us = None
        self.events.append(ProgressSaved(message.sequence))

    def _update(self, now_us: int, *, is_whole: bool = False) -> int:
        """Say what is new, or all that is not known to be saved."""
        if self.status in (CONNECTING, ENDED):
            return 0
        self._sequence += 1
        sent, self._fresh = self._fresh, {}
        self._unsaved.update(sent)
        if is_whole:
            sent = self._unsaved
        for held in sent.values():
            held.sequence = self._sequence
        progress = {share: (held.number, held.progress) for share, held in sent.items()}
        final = frozenset(share for share, held in sent.items() if held.is_final)
        self.outgoing.append(p.UpdateProgress(self._sequence, progress, final, is_whole))
        if self._resend_us is None or self._resend_us <= now_us:
            self._resend_us = now_us + self._timers.resend_us
        return self._sequence

    def _ping(self, now_us: int) -> None:
        self._ping_us = now_us + self._timers.ping_us
        if self._timeout_us is None:
            self._timeout_us = now_us + self._timers.ping_timeout_us
        self.outgoing.append(p.Ping(self._ready))

    def _invalidate(self) -> None:
        self._end()
        self.events.append(Invalidated())

    def _end(self) -> None:
        self.status = ENDED
        self._shares = {}
        self._revoking = {}
        self._fresh = {}
        self._unsaved = {}

    def __repr__(self) -> str:
        return f"Borrower({str(self.group)!r}, {self.id.clientid!r}, {self.status}, {len(self._shares)} shares)"
