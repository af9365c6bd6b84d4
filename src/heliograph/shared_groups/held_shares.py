"""The shares that a member was granted, and what its leader has yet to hear of them."""

from heliograph.shared_groups.borrower import ENDED, Borrower
from heliograph.shared_groups.open_share import Entry, OpenShare, ShareReaders, Taker, Waiting
from heliograph.shared_groups.protocol import Progress, Share


class HeldShares:
    """From the grant of a share until the leader knows how far it is and has taken it back; owned by the member."""

    __slots__ = ("_borrower", "_closing", "_dirty", "_noted", "_readers", "_reported", "_shares", "_waiting")

    def __init__(self, borrower: Borrower, readers: ShareReaders, waiting: Waiting) -> None:
        self._borrower = borrower
        self._readers = readers
        self._waiting = waiting
        self._shares: dict[Share, OpenShare] = {}
        self._dirty: dict[OpenShare, None] = {}  # their progress is to be reported
        self._closing: dict[OpenShare, None] = {}  # to be finished when they are clear
        self._noted: list[Entry] = []  # saved with a session, and not reported yet
        self._reported: list[tuple[int, list[Entry], list[Entry]]] = []  # sequence, what was noted, and claims

    def __len__(self) -> int:
        return len(self._shares)

    @property
    def all(self) -> list[OpenShare]:
        return list(self._shares.values())

    @property
    def is_clear(self) -> bool:
        """Whether all that was sent of them is done."""
        return all(share.is_clear for share in self._shares.values())

    @property
    def is_settled(self) -> bool:
        """Whether the leader knows, and has saved, all that is to be reported."""
        return self._borrower.is_quiet and not (self._dirty or self._closing or self._noted or self._reported)

    @property
    def is_quiet(self) -> bool:
        """Whether all of their delivered messages are done."""
        return all(share.is_quiet for share in self._shares.values())

    @property
    def lagging(self) -> list[OpenShare]:
        """Those that were read further than was reported, as there was no message in it."""
        return [share for share in self._shares.values() if share.lags]

    @property
    def has_unsaved_notes(self) -> bool:
        """Whether notes of messages that are a session's own wait for progress that counts these."""
        return any(noted for _, noted, _ in self._reported)

    # --- what the leader says

    def grant(self, share: Share, progress: Progress, owner: Taker) -> None:
        opened = self._shares[share] = OpenShare(share, progress, self._waiting)
        opened.owner = owner
        self._readers.open_share(opened)

    def find(self, share: Share) -> OpenShare:
        return self._shares[share]

    def reopen(self) -> None:
        """There may be messages that were not read, as there was no room."""
        for share in self._shares.values():
            if not share.is_closed:
                self._readers.open_share(share)

    def close(self, share: OpenShare) -> None:
        share.close()
        self._readers.close_share(share)
        self._closing[share] = None

    def stop_reading(self) -> None:
        """The group falls asleep: nothing more of any is read."""
        for share in self._shares.values():
            share.close()

    def forget(self, share: Share) -> None:
        self._shares.pop(share)

    # --- what it hears

    def touch(self, share: OpenShare) -> None:
        self._dirty[share] = None

    def note(self, entry: Entry) -> None:
        self._noted.append(entry)
        entry.settle(soon=True)

    def report(self, now_us: int, claims: list[Entry]) -> None:
        """Report how far those are that have moved on, claims as done, and finish those that are done with."""
        dirty, self._dirty = self._dirty, {}
        progress = {}
        for share in dirty:
            if share.share not in self._shares:
                continue
            if share.is_finished and not share.is_closed:
                self._closing[share] = None
                self._readers.close_share(share)
            progress[share.share] = share.progress()
        if self._closing:
            self._finish(now_us)
        if progress or self._noted or claims:
            sequence = self._borrower.report(now_us, progress)
            if self._noted or claims:
                self._reported.append((sequence, self._noted, claims))
                self._noted = []

    def _finish(self, now_us: int) -> None:
        finished = {one.share: one.progress() for one in self._closing if one.is_clear and not one.has_claims}
        if finished:
            self._closing = {one: None for one in self._closing if one.share not in finished}
            self._borrower.finish(now_us, finished)

    def finish(self, now_us: int, share: OpenShare) -> None:
        self._closing.pop(share, None)
        self._borrower.finish(now_us, {share.share: share.progress()})

    def take_saved(self, sequence: int) -> tuple[list[Entry], list[Entry]]:
        """What was noted and what was claimed of the reports that are saved, up to a sequence number."""
        noted: list[Entry] = []
        claims: list[Entry] = []
        while self._reported and self._reported[0][0] <= sequence:
            _, some, others = self._reported.pop(0)
            noted += some
            claims += others
        return noted, claims

    # --- the end

    def disconnect(self) -> None:
        if self._borrower.status == ENDED:
            return
        sequence = self._borrower.disconnect({share: one.progress() for share, one in self._shares.items()})
        if self._noted:
            self._reported.append((sequence, self._noted, []))
            self._noted = []
        for share in self._shares.values():
            self._readers.close_share(share)
        self._shares.clear()
        self._dirty.clear()

    def abandon(self) -> list[Entry]:
        """The leader has taken all of them away: what is a session's own, and not known to be counted."""
        for share in self._shares.values():
            share.close()
            self._readers.close_share(share)
        noted = [*(one for _, some, _ in self._reported for one in some), *self._noted]
        self._reported.clear()
        self._noted = []
        self._shares.clear()
        return noted

    def __repr__(self) -> str:
        return f"HeldShares({len(self._shares)} shares, {len(self._dirty)} to be reported)"
