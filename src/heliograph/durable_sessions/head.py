"""How far commits of messages are, as durable sessions need to know it.

The **head** is the newest commit whose messages were all handed to their subscribers: replays go up to there. What is
**complete** also has its part in every other database, and all its packet identifiers are gathered.
"""

from collections import deque
from contextlib import suppress
from typing import Protocol

from heliograph.broker.pubsub import Broker
from heliograph.durable_sessions.replay_turns import Replays
from heliograph.session.durability import Durability
from heliograph.storage.errors import StorageError


class CommittedDatabase(Protocol):
    def newest_commit_us(self) -> int:
        """The time of the newest commit."""


class CommitHead:
    """Moves the head of a node's durable sessions; owned by `DurableSessions`."""

    def __init__(self, durability: Durability, messages: CommittedDatabase, broker: Broker, replays: Replays) -> None:
        self._durability = durability
        self._messages = messages
        self._fanouts = broker.fanouts
        self._replays = replays
        self._newest_us = 0  # the time of the newest commit
        self._heads: deque[tuple[int, int]] = deque()  # tickets and times of commits that the head does not cover yet
        self._unjoined: deque[tuple[int, int]] = deque()  # the same, with a part that may not be committed
        self._whole: tuple[int, int] = 0, 0  # the newest with all parts committed
        broker.fanouts.on_passed = self._follow

    def begin(self) -> None:
        """All that is stored was committed before this process began.

        Raises:
            StorageError: It is not known how far that is. Without that a session would count as having all messages.
        """
        durability = self._durability
        durability.head_us = self._newest_us = self._messages.newest_commit_us()
        durability.head_ticket = durability.committed
        self._heads.clear()
        self._unjoined.clear()
        self._whole = self._whole[0], self._newest_us
        self._replays.on_committed(self._newest_us, durability.committed)

    @property
    def complete(self) -> tuple[int, int]:
        """A commit time, up to which everything is complete, and a ticket."""
        return min(int(self._durability.head_us), self._whole[1]), self._whole[0]

    def on_committed(self, ticket: int, is_refused: bool = False) -> None:
        if not is_refused:
            with suppress(StorageError):  # it had nothing to store, and the database cannot be read now
                self._newest_us = self._messages.newest_commit_us()
        self._durability.answered(ticket, is_refused)
        self._durability.release()
        self._heads.append((ticket, self._newest_us))
        self._unjoined.append((ticket, self._newest_us))
        self._follow()

    def on_joined(self, ticket: int) -> None:
        """All databases have what was tied to a ticket, or refused it: what was taken from clients is complete."""
        while self._unjoined and self._unjoined[0][0] <= ticket:
            self._whole = self._unjoined.popleft()

    def _follow(self) -> None:
        """Let the head follow the commits, up to the oldest message that has yet to be handed to a subscriber.

        A session that is behind would get it from the disk as well; one whose client leaves would take it for assigned.
        """
        heads, on_its_way, durability = self._heads, self._fanouts.oldest_ticket(), self._durability
        moved = False
        while heads and not 0 < on_its_way <= heads[0][0]:
            durability.head_ticket, durability.head_us = heads.popleft()
            moved = True
        if moved:
            self._replays.on_committed(durability.head_us, durability.head_ticket)

    def __repr__(self) -> str:
        return f"CommitHead({self._durability.head_us}, {len(self._heads)} commits before it)"
