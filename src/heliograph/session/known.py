"""The sessions of a node by client id, wherever they are: connected, away, or on the disk only."""

from mypy_extensions import i64

from heliograph.broker.walkable import Listed, ListWalk, WalkableList
from heliograph.session.session import Session


class Asleep(Listed):
    """What is known of a session that is on the disk only; read for its client, or when it ends.

    Args:
        expiry_s: How long it outlives its connection.
        left_us: When its client left, microseconds since the epoch.
    """

    def __init__(self, clientid: str, absence: i64, expiry_s: i64, left_us: i64) -> None:
        super().__init__()
        self.clientid = clientid
        self.absence = absence
        self.expiry_s = expiry_s
        self.left_us = left_us


class KnownSessions:
    """Every session that a node knows; owned by the session table.

    A session has one place in the list for as long as it lives, whether it sleeps meanwhile or not.

    Attributes:
        held: Those in memory.
        asleep: Those on the disk only.
    """

    def __init__(self) -> None:
        self.held: dict[str, Session] = {}
        self.asleep: dict[str, Asleep] = {}
        self._absences: dict[str, i64] = {}  # the numbers of the absences of clients whose sessions are in memory
        self._listed: WalkableList[Listed] = WalkableList()
        self._last_absence: i64 = 0

    def __len__(self) -> int:
        return len(self.held) + len(self.asleep)

    def __contains__(self, clientid: str) -> bool:
        return clientid in self.held or clientid in self.asleep

    @property
    def away_count(self) -> int:
        return len(self._absences) + len(self.asleep)

    def begin(self, session: Session) -> None:
        self.held[session.clientid] = session
        self._listed.add(session)

    def absence(self, clientid: str) -> i64:
        """The number of a client's absence, which no other has; 0 if it is not away."""
        asleep = self.asleep.get(clientid)
        return self._absences.get(clientid, 0) if asleep is None else asleep.absence

    def depart(self, clientid: str) -> None:
        self._last_absence += 1
        self._absences[clientid] = self._last_absence

    def come_back(self, clientid: str) -> None:
        self._absences.pop(clientid, None)

    def find_asleep(self, clientid: str, expiry_s: i64, left_us: i64) -> None:
        self._last_absence += 1
        asleep = Asleep(clientid, self._last_absence, expiry_s, left_us)
        self.asleep[clientid] = asleep
        self._listed.add(asleep)

    def wake(self, session: Session) -> None:
        """A session that was asleep is in memory; its client is away still."""
        clientid = session.clientid
        asleep = self.asleep.pop(clientid)
        self._absences[clientid] = asleep.absence
        self.held[clientid] = session
        self._listed.replace(asleep, session)

    def let_sleep(self, session: Session) -> None:
        """A session whose client is away is on the disk only from now on."""
        clientid = session.clientid
        asleep = Asleep(clientid, self._absences.pop(clientid), session.expiry_interval_s, session.left_us)
        del self.held[clientid]
        self.asleep[clientid] = asleep
        self._listed.replace(session, asleep)

    def forget(self, clientid: str) -> None:
        self._absences.pop(clientid, None)
        entry: Listed | None = self.held.pop(clientid, None)
        if entry is None:
            entry = self.asleep.pop(clientid, None)
        if entry is not None:
            self._listed.remove(entry)

    def walk(self, before: i64 = 0) -> ListWalk[Listed]:
        """Begin a walk through all of them: `Session`s, and `Asleep` where they are on the disk only."""
        return self._listed.walk(before)

    def entry(self, clientid: str) -> Listed | None:
        session: Listed | None = self.held.get(clientid)
        return self.asleep.get(clientid) if session is None else session
