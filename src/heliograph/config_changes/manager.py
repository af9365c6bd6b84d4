"""Brings about changes of a node's configuration: each as a whole or not at all, and one at a time.

How a configuration takes the place of another one is in `held`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any, Final, TypeVar

from heliograph.config.layers import Layers
from heliograph.config_changes.edits import WHOLE, Edit
from heliograph.config_changes.errors import ChangeConflictError, ConfigWriteError, NoRevisionError, reasons
from heliograph.config_changes.files import ConfigFiles
from heliograph.config_changes.held import HeldConfig
from heliograph.config_changes.pem_files import PemFiles
from heliograph.config_changes.planning import HIDDEN
from heliograph.config_changes.revisions import Revision, Unconfirmed
from heliograph.config_changes.terms import ANY_TERMS, Author, ChangeOutcome, Terms
from heliograph.observe.alarms import Alarms
from heliograph.rpc.methods import DONE, Action, Audit

_log = logging.getLogger(__name__)

GO_BACK_ALARM: Final = "config_not_gone_back"
_ITSELF: Final = Author("heliograph", "the node itself")
_GO_BACK_AGAIN_S: Final = 10.0

Result = TypeVar("Result")


class ConfigManager:
    """The configuration of one running node; owned by its part `config_changes`, from its start to its stop."""

    def __init__(
        self, held: HeldConfig, files: ConfigFiles, audit: Audit, alarms: Alarms, now_s: Callable[[], float]
    ) -> None:
        self._held = held
        self._files = files
        self._audit = audit
        self._alarms = alarms
        self._now_s = now_s
        self._one_at_a_time = asyncio.Lock()
        self._running: set[asyncio.Task[Any]] = set()
        self._going_back: asyncio.Task[None] | None = None
        self._go_back_at_s = 0.0  # not before, where it has failed
        self._is_stopped = False

    @property
    def layers(self) -> Layers:
        return self._held.layers

    @property
    def revision(self) -> int:
        return self._held.revision

    async def stop(self) -> None:
        """Stop taking changes, and wait for the one that is made."""
        self._is_stopped = True
        await self.settled()

    async def settled(self) -> None:
        if self._running:
            await asyncio.wait(self._running)

    def tick(self) -> None:
        """Begin to go back if a change was not confirmed in time."""
        unconfirmed = self._held.unconfirmed
        if unconfirmed is None or self._is_stopped:
            return
        if not unconfirmed.until <= self._now_s() >= self._go_back_at_s:
            return
        if self._going_back is None or self._going_back.done():
            self._going_back = self._begun(self._go_back(unconfirmed))

    @property
    def confirm_until(self) -> float | None:
        """When the present revision goes back, in seconds since the epoch; None: it stays."""
        return None if self._held.unconfirmed is None else self._held.unconfirmed.until

    @property
    def pem_files(self) -> PemFiles:
        return self._held.pem_files

    async def plan(self, edit: Edit, terms: Terms = ANY_TERMS) -> ChangeOutcome:
        """What a change would do, hidden settings included; `ConfigChangeError` if it would be refused."""
        self._refuse_at_the_end()
        # Parts begin what they have to end, such as processes: an asker that gives up does not end it in the middle.
        return await asyncio.shield(self._begun(self._plan(edit, terms)))

    async def plan_roll_back(self, number: int, terms: Terms = ANY_TERMS) -> ChangeOutcome:
        """What going back to a revision would do. Raises as `plan`."""
        self._refuse_at_the_end()
        return await asyncio.shield(self._begun(self._plan_roll_back(number, terms)))

    async def change(self, edit: Edit, author: Author, terms: Terms = ANY_TERMS) -> ChangeOutcome:
        """Change the layer of the cluster. After a `ConfigChangeError` nothing was."""
        return await self._asked(author, "config.change", terms, lambda: self._change(edit, author, terms))

    async def reload(self, author: Author) -> ChangeOutcome:
        """Read all files again, certificates too, and apply what differs. Raises as `change`."""
        terms = Terms(force=True, comment="the files were read again")
        return await self._asked(author, "config.reload", terms, lambda: self._reload(author, terms))

    async def roll_back(self, number: int, author: Author, terms: Terms = ANY_TERMS) -> ChangeOutcome:
        """Apply an earlier revision again, as a new revision. Raises as `change`."""
        return await self._asked(author, "config.rollback", terms, lambda: self._roll_back(number, author, terms))

    async def confirm(self, author: Author) -> int:
        """The number of the revision that was on trial; `ConfigChangeError` without one, or if the disk refuses it."""
        return await self._asked(author, "config.confirm", Terms(), self._confirm)

    async def revisions(self) -> list[Revision]:
        """The oldest first."""
        return await asyncio.to_thread(self._files.revisions)

    async def show_revision(self, number: int) -> Revision:
        """Raises `NoRevisionError` if it is not kept."""
        found = await asyncio.to_thread(self._files.revision, number) if number <= self.revision else None
        if found is None:
            kept = ", ".join(str(one.number) for one in await self.revisions()) or "none but 0"
            raise NoRevisionError(f"there is no revision {number}; kept are {kept}")
        return found

    async def _asked(
        self, author: Author, method: str, terms: Terms, do: Callable[[], Coroutine[Any, Any, Result]]
    ) -> Result:
        """Do it after all before it, to its end even if the caller does not wait, and write it into the audit log."""
        self._refuse_at_the_end()
        return await asyncio.shield(self._begun(self._recorded(author, method, terms, do)))

    def _begun(self, work: Coroutine[Any, Any, Result]) -> asyncio.Task[Result]:
        task = asyncio.get_running_loop().create_task(work)
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        return task

    async def _recorded(
        self, author: Author, method: str, terms: Terms, do: Callable[[], Coroutine[Any, Any, Result]]
    ) -> Result:
        async with self._one_at_a_time:
            given: dict[str, object] = {"comment": terms.comment} if terms.comment else {}
            try:
                terms.check(self.revision)
                done = await do()
            except Exception as error:
                outcome = getattr(error, "code", "internal")
                self._audit.record(Action(author.who, author.origin, method, given, outcome, str(error)))
                raise
            if self._held.unconfirmed is None:  # gone back, or settled by a person
                self._alarms.deactivate(GO_BACK_ALARM)
            self._audit.record(Action(author.who, author.origin, method, given | _said(done), DONE, ""))
            return done

    async def _plan(self, edit: Edit, terms: Terms) -> ChangeOutcome:
        async with self._one_at_a_time:
            terms.check(self.revision)
            wanted = await asyncio.to_thread(self._held.edited, edit)
            return await self._held.plan(wanted)

    async def _change(self, edit: Edit, author: Author, terms: Terms) -> ChangeOutcome:
        self._held.refuse_while_unconfirmed()
        wanted = await asyncio.to_thread(self._held.edited, edit)
        return await self._held.make(wanted, author, terms)

    async def _reload(self, author: Author, terms: Terms) -> ChangeOutcome:
        wanted = await asyncio.to_thread(self._held.read_again)
        if wanted.text != self._held.text:
            self._held.refuse_while_unconfirmed()
        return await self._held.make(wanted, author, terms)

    async def _roll_back(self, number: int, author: Author, terms: Terms) -> ChangeOutcome:
        comment = terms.comment or f"back to revision {number}"
        wanted = await asyncio.to_thread(self._held.edited, await self._edit_back(number))
        return await self._held.make(wanted, author, Terms(True, terms.revision, terms.confirm_s, comment))

    async def _plan_roll_back(self, number: int, terms: Terms) -> ChangeOutcome:
        return await self._plan(await self._edit_back(number), terms)

    async def _edit_back(self, number: int) -> Edit:
        return Edit((await self.show_revision(number)).text, WHOLE, name=f"revision {number}")

    async def _confirm(self) -> int:
        if self._held.unconfirmed is None:
            raise ChangeConflictError(f"revision {self.revision} is not on trial: there is nothing to confirm")
        try:
            await asyncio.to_thread(self._files.confirm)
        except OSError as error:
            raise ConfigWriteError(f"the confirmation cannot be written, and the change goes back: {error}") from error
        self._held.confirmed()
        return self.revision

    async def _go_back(self, unconfirmed: Unconfirmed) -> None:
        """Tried again in a while if that fails."""
        terms = Terms(force=True, comment=f"revision {unconfirmed.revision} was not confirmed in time")

        async def do() -> ChangeOutcome:
            if self._held.unconfirmed is not unconfirmed:  # confirmed, or taken back by a person
                return ChangeOutcome(self.revision)
            wanted = await asyncio.to_thread(self._held.restored, unconfirmed.before)
            return await self._held.make(wanted, _ITSELF, terms)

        try:
            await self._recorded(_ITSELF, "config.rollback", terms, do)
        except Exception as error:  # noqa: BLE001 - whatever it is, an operator has to know
            self._go_back_at_s = self._now_s() + _GO_BACK_AGAIN_S  # each attempt is a line of the audit log
            text = f"{terms.comment}, but it cannot be taken back: {'; '.join(reasons(error))}"
            if self._alarms.activate(GO_BACK_ALARM, text, {"revision": unconfirmed.revision}):
                _log.error("%s", text)

    def _refuse_at_the_end(self) -> None:
        if self._is_stopped:
            raise ChangeConflictError("the node stops")

    def __repr__(self) -> str:
        return f"ConfigManager(revision {self.revision})"


def _said(done: object) -> dict[str, object]:
    if not isinstance(done, ChangeOutcome):
        return {"revision": done}
    settings = [one.path for one in done.settings if one.how != HIDDEN]
    hidden = [one.path for one in done.settings if one.how == HIDDEN]
    return {"revision": done.revision, "settings": settings} | ({"hidden": hidden} if hidden else {})
