"""How far the shares of a group are, what of that has yet to be saved, and which borrowers get an answer then."""

from collections.abc import Iterable, Mapping

from heliograph.shared_groups.protocol import BorrowerId, MessageId, Progress, Share
from heliograph.storage.interface import Position, StreamId


class ProgressLedger:
    """The progress of one group; owned by its leader. Shares that nothing is known of begin at `beginning`."""

    __slots__ = ("_answers", "_beginning", "_changed", "_progress", "_saving", "_token", "_unsaved")

    def __init__(self, beginning: Position, progress: Mapping[Share, Progress]) -> None:
        self._beginning = Progress(beginning)
        self._progress = dict(progress)
        self._changed: dict[Share, None] = {}
        self._answers: dict[BorrowerId, int] = {}  # the sequence that each gets when what has changed is saved
        self._saving: dict[int, tuple[list[Share], dict[BorrowerId, int]]] = {}
        self._token = 0
        self._unsaved: dict[Share, int] = {}  # how many of the saves under way, and the next, a share is part of

    # --- progress

    def progress(self, share: Share) -> Progress:
        return self._progress.get(share) or self._beginning

    def move(self, share: Share, reached: Progress) -> None:
        if self.progress(share) != reached:
            self._progress[share] = reached
            self._change(share)

    def claim(self, share: Share, messages: Iterable[MessageId]) -> None:
        progress = self.progress(share)
        if not progress.is_end:
            done = dict.fromkeys((*progress.done, *messages))
            self._progress[share] = Progress(progress.position, tuple(done))
        self._change(share)

    def retain(self, streams: Mapping[StreamId, object]) -> None:
        """Forget the shares of all other streams, which no longer exist."""
        for share in [share for share in self._progress if share.stream not in streams]:
            del self._progress[share]
            self._change(share)

    def _change(self, share: Share) -> None:
        if share not in self._changed:
            self._changed[share] = None
            self._unsaved[share] = self._unsaved.get(share, 0) + 1

    # --- saving

    @property
    def has_changes(self) -> bool:
        return bool(self._changed or self._answers)

    @property
    def is_saving(self) -> bool:
        return bool(self._saving)

    def is_unsaved(self, share: Share) -> bool:
        return share in self._unsaved

    def answers_later(self, borrower: BorrowerId, sequence: int) -> bool:
        """Whether a borrower's report is part of what has yet to be saved: then `on_saved` gives the answer to it."""
        if self._changed or self._saving:
            self._answers[borrower] = sequence
            return True
        return False

    def forget_borrower(self, borrower: BorrowerId) -> None:
        self._answers.pop(borrower, None)

    def take_changes(self) -> tuple[int, dict[Share, Progress | None]]:
        changes = {share: self._progress.get(share) for share in self._changed}
        self._token += 1
        self._saving[self._token] = (list(changes), self._answers)
        self._changed, self._answers = {}, {}
        return self._token, changes

    def on_saved(self, token: int, is_saved: bool) -> tuple[list[Share], dict[BorrowerId, int]]:
        """Changes are durable, or were refused and are changes still.

        Returns:
            The shares of which everything is saved now, and the answers to borrowers: the sequences of their reports.
        """
        shares, answers = self._saving.pop(token)
        settled = []
        for share in shares:
            if not is_saved:
                self._change(share)
            left = self._unsaved.pop(share) - 1
            if left > 0:
                self._unsaved[share] = left
            else:
                settled.append(share)
        if is_saved:
            return settled, answers
        for borrower, sequence in answers.items():
            self._answers[borrower] = max(sequence, self._answers.get(borrower, 0))
        return settled, {}

    def __repr__(self) -> str:
        return f"ProgressLedger({len(self._progress)} shares, {len(self._changed)} changed)"
