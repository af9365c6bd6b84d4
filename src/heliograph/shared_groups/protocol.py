"""The words of durable shared groups, and what leader and borrowers say to one another.

A **group** is a name and a topic filter. Its messages lie in streams, and each stream is cut into **shares** by a hash
of the publisher's client id: a fleet's telemetry is often one stream, which one member alone could not consume, while
the order of a publisher's messages on a topic holds within a share. The **leader** keeps the progress of every share
and grants shares to **borrowers**, one for each subscription of a connected client.

Messages from one sender to one receiver arrive in order, or not at all; a sender that needs an answer asks again after
a while. Every grant has a number, so that what belongs to an earlier one is recognised.
"""

import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple, Protocol

from heliograph.storage.interface import BEGINNING, END, Position, Rank, StreamId

SHARES_PER_STREAM: Final = 16

MessageId = tuple[int, int]


class GroupName(NamedTuple):
    """A group: its name as clients say it, and its filter (with a mountpoint before it, where there is one)."""

    name: str
    topic_filter: str

    def __str__(self) -> str:
        return f"{self.name}/{self.topic_filter}"

    @classmethod
    def parse(cls, text: str) -> "GroupName":
        """Read the text form; no group's name holds a slash [MQTT-4.8.2-2]."""
        name, _, topic_filter = text.partition("/")
        return cls(name, topic_filter)


class Share(NamedTuple):
    """A part of a stream: the messages of the publishers that fall to its number."""

    stream: StreamId
    number: int

    def __str__(self) -> str:
        return f"{self.stream}/{self.number}"

    @classmethod
    def parse(cls, text: str) -> "Share":
        """Read the text form."""
        stream, _, number = text.rpartition("/")
        return cls(StreamId.parse(stream), int(number))


class Progress(NamedTuple):
    """What of a share is done: all up to a position, and single messages above it by their ids."""

    position: Position = BEGINNING
    done: tuple[MessageId, ...] = ()

    @property
    def is_end(self) -> bool:
        """Whether the share is done for ever: its stream is sealed and was read to its last message."""
        return self.position == END


class BorrowerId(NamedTuple):
    """A borrower: one subscription of one client, while it lasts. Numbers are never used again."""

    clientid: str
    number: int


class StreamOffer(NamedTuple):
    """A stream as the leader sees it: streams of one `rank.x` are done in the order of `rank.y`."""

    stream: StreamId
    rank: Rank


def share_of(clientid: str) -> int:
    """Which share of its stream a publisher's messages belong to; the same on every node and in every version."""
    return zlib.crc32(clientid.encode("utf-8", "surrogatepass")) % SHARES_PER_STREAM


# --- from borrowers


@dataclass(frozen=True, slots=True)
class LeaderWanted:
    """Who leads this group? Asked again until there is an answer."""


@dataclass(frozen=True, slots=True)
class Ping:
    """The borrower is alive; `ready` is False while its client takes nothing, so that others may have its shares."""

    ready: bool


@dataclass(frozen=True, slots=True)
class UpdateProgress:
    """How far shares are.

    Attributes:
        sequence: Rises with each such message; answered by `Saved`.
        progress: By share, with the number of the grant.
        final: Those of them that the borrower is done with, because they were revoked or have ended.
        is_whole: It says all that is not known to be saved. Otherwise it says what has changed since the message before
            it, and counts only if that one was heard.
    """

    sequence: int
    progress: Mapping[Share, tuple[int, Progress]]
    final: frozenset[Share] = frozenset()
    is_whole: bool = True


@dataclass(frozen=True, slots=True)
class RevokeFinished:
    """The borrower has forgotten a share."""

    share: Share
    number: int


@dataclass(frozen=True, slots=True)
class Disconnect:
    """The borrower is gone; this is how far its shares were."""

    sequence: int
    progress: Mapping[Share, tuple[int, Progress]]


# --- from the leader


@dataclass(frozen=True, slots=True)
class LeaderConnectResponse:
    """The leader takes the borrower on."""

    leader: str


@dataclass(frozen=True, slots=True)
class PingResponse:
    """The leader is alive."""


@dataclass(frozen=True, slots=True)
class Grant:
    """A share is the borrower's from here on."""

    share: Share
    number: int
    progress: Progress


@dataclass(frozen=True, slots=True)
class Revoke:
    """The borrower is to bring a share to an end."""

    share: Share
    number: int


@dataclass(frozen=True, slots=True)
class Revoked:
    """The final progress of a share was taken."""

    share: Share
    number: int


@dataclass(frozen=True, slots=True)
class Saved:
    """All progress up to a sequence number is durable."""

    sequence: int


@dataclass(frozen=True, slots=True)
class Invalidate:
    """The leader does not know the borrower, or no longer leads: start again."""


ToLeader = LeaderWanted | Ping | UpdateProgress | RevokeFinished | Disconnect
ToBorrower = LeaderConnectResponse | PingResponse | Grant | Revoke | Revoked | Saved | Invalidate


class Messenger(Protocol):
    """Delivers messages, never from within the call, so that no answer comes before a call returns."""

    def to_leader(self, group: GroupName, sender: BorrowerId, message: ToLeader) -> None:
        """A message to the leader of a group; `LeaderWanted` goes to the registry that finds it."""

    def to_borrower(self, receiver: BorrowerId, message: ToBorrower) -> None:
        """A message to a borrower."""


@dataclass(slots=True)
class Timers:
    """Timeouts of leaders and borrowers, in microseconds; all of one node share them, and see when they change.

    Attributes:
        find_leader_us: Between two questions for the leader.
        ping_us: Between two pings.
        ping_timeout_us: Without an answer for so long, the borrower starts again.
        borrower_timeout_us: Without a word for so long, the leader gives the borrower up; later than the borrower does.
        resend_us: Between two messages that say the same.
        revoke_timeout_us: How long a client may take to acknowledge what it has of a share that is revoked.
        lease_us: How long leadership lasts without being renewed.
        checkpoint_us: How long borrowers collect progress that nothing waits for.
        stall_us: How long a client may take nothing of what waits for it before others get it.
        rest_us: How long a group has nothing to do before it falls asleep.
    """

    find_leader_us: int = 1_000_000
    ping_us: int = 4_000_000
    ping_timeout_us: int = 8_000_000
    borrower_timeout_us: int = 16_000_000
    resend_us: int = 1_000_000
    revoke_timeout_us: int = 10_000_000
    lease_us: int = 30_000_000
    checkpoint_us: int = 200_000
    stall_us: int = 5_000_000
    rest_us: int = 10_000_000
