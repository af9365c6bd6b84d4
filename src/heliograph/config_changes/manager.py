"""Brings about changes of a node's configuration: each as a whole or not at all, and one at a time.

A change goes through these steps; whatever fails before the last one, everything is as it was:

    validate    the layers with the change are read as at a start, with the checks of all languages in them
    plan        what differs, how each setting changes, and what a higher layer hides
    prepare     every part makes ready what can fail: binds, reads certificates, compiles
    write       the revision, then `cluster.hocon`, each forced to the disk
    commit      every part has it hold, in one turn of the event loop; then the hook point `config.changed` is run
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from heliograph.config import Config, ConfigError, Layers
from heliograph.config.layers import CLUSTER
from heliograph.config_changes.edits import WHOLE, Edit, edited
from heliograph.config_changes.errors import (
    ChangeConflictError,
    ConfigRefusedError,
    ConfigWriteError,
    HiddenChangeError,
    NoRevisionError,
    reasons,
)
from heliograph.config_changes.files import ConfigFiles, document
from heliograph.config_changes.planning import HIDDEN, PlannedSetting, planned
from heliograph.config_changes.revisions import FIRST, Revision, Unconfirmed, digest_of
from heliograph.config_changes.terms import ANY_TERMS, Author, ChangeOutcome, Terms
from heliograph.hocon import HoconError, parse_text
from heliograph.hocon.writing import to_hocon
from heliograph.observe.alarms import Alarms
from heliograph.parts import Parts, Plan
from heliograph.rpc.methods import DONE, Action, Audit
from heliograph.settings.how import How
from heliograph.settings.masking import masked

_log = logging.getLogger(__name__)

INCOMPLETE_ALARM: Final = "config_change_incomplete"
GO_BACK_ALARM: Final = "config_not_gone_back"
_ITSELF: Final = Author("heliograph", "the node itself")
_CONFIRM_S_MAX: Final = 86_400.0

Result = TypeVar("Result")
Changed = Callable[[int, Plan], object]


@dataclass(frozen=True, slots=True)
class _Wanted:
    """Layers that are to hold, and what they say; the text is of the layer of the cluster."""

    layers: Layers
    config: Config
    text: str


class ConfigManager:
    """The configuration of one running node; owned by its part `config_changes`, from its start to its stop.

    Args:
        layers: What the node was started with.
        files: Where the layer of the cluster is written.
        parts: What has a configuration hold.
        read: What layers say, with the checks of all languages in them; raises `ConfigError`.
        audit: Told of every change, and of every attempt that is refused.
        alarms: Told of a change that a part did not make, and of one that cannot be taken back.
        changed: Told the revision and what changed, in the turn of the change.
        now_s: The time, in seconds since the epoch.
    """

    def __init__(
        self,
        layers: Layers,
        files: ConfigFiles,
        parts: Parts,
        read: Callable[[Layers], Config],
        audit: Audit,
        alarms: Alarms,
        changed: Changed,
        now_s: Callable[[], float],
    ) -> None:
        self.layers = layers
        self.revision = FIRST
        self._files = files
        self._parts = parts
        self._read = read
        self._audit = audit
        self._alarms = alarms
        self._changed = changed
        self._now_s = now_s
        self._unconfirmed: Unconfirmed | None = None
        self._one_at_a_time = asyncio.Lock()
        self._running: set[asyncio.Task[Any]] = set()
        self._going_back: asyncio.Task[None] | None = None
        self._is_stopped = False

    async def start(self) -> None:
        """Find the revision that holds, and whether it is on trial."""
        self.revision, self._unconfirmed = await asyncio.to_thread(
            lambda: (self._files.number(), self._files.unconfirmed())
        )

    async def stop(self) -> None:
        """Take no more changes, and wait for the one that is made."""
        self._is_stopped = True
        await self.settled()

    async def settled(self) -> None:
        """Wait for the changes that were begun."""
        if self._running:
            await asyncio.wait(self._running)

    def tick(self) -> None:
        """Begin to go back if a change was not confirmed in time."""
        unconfirmed = self._unconfirmed
        if unconfirmed is None or self._now_s() < unconfirmed.until or self._is_stopped:
            return
        if self._going_back is None or self._going_back.done():
            self._going_back = self._begun(self._go_back(unconfirmed))

    @property
    def confirm_until(self) -> float | None:
        """When the present revision goes back, in seconds since the epoch; None: it stays."""
        return None if self._unconfirmed is None else self._unconfirmed.until

    async def plan(self, edit: Edit, terms: Terms = ANY_TERMS) -> ChangeOutcome:
        """What a change would do, after every part has said that it can take it; nothing is changed.

        Raises:
            ConfigChangeError: It would be refused, but not since a higher layer hides it: the plan shows that.
        """
        async with self._one_at_a_time:
            self._check_terms(terms)
            wanted = await asyncio.to_thread(self._edited, edit)
            plan = await self._prepared(wanted)
            self._parts.undo(plan)
            return self._outcome(plan, planned(self.layers, wanted.layers, plan.differences))

    async def change(self, edit: Edit, author: Author, terms: Terms = ANY_TERMS) -> ChangeOutcome:
        """Change the layer of the cluster.

        Raises:
            ConfigChangeError: Nothing was changed, and why.
        """
        return await self._asked(author, "config.change", terms, lambda: self._change(edit, author, terms))

    async def reload(self, author: Author) -> ChangeOutcome:
        """Read all files again, and apply what differs; certificates and other files that settings name are read again.

        Raises:
            ConfigChangeError: Nothing was changed, and why.
        """
        terms = Terms(force=True, comment="the files were read again")
        return await self._asked(author, "config.reload", terms, lambda: self._reload(author, terms))

    async def roll_back(self, number: int, author: Author, terms: Terms = ANY_TERMS) -> ChangeOutcome:
        """Have the text of an earlier revision hold, as a new revision.

        Raises:
            ConfigChangeError: Nothing was changed, and why.
        """
        return await self._asked(author, "config.rollback", terms, lambda: self._roll_back(number, author, terms))

    async def confirm(self, author: Author) -> int:
        """Have the revision that is on trial stay; its number.

        Raises:
            ConfigChangeError: None is on trial, or the disk does not take it.
        """
        return await self._asked(author, "config.confirm", Terms(), self._confirm)

    async def revisions(self) -> list[Revision]:
        """Those that are kept, the oldest first."""
        return await asyncio.to_thread(self._files.revisions)

    async def show_revision(self, number: int) -> Revision:
        """One of them.

        Raises:
            NoRevisionError: It is not kept.
        """
        found = await asyncio.to_thread(self._files.revision, number) if number <= self.revision else None
        if found is None:
            kept = ", ".join(str(one.number) for one in await self.revisions()) or "none but 0"
            raise NoRevisionError(f"there is no revision {number}; kept are {kept}")
        return found

    async def _asked(
        self, author: Author, method: str, terms: Terms, do: Callable[[], Coroutine[Any, Any, Result]]
    ) -> Result:
        """Do one thing after the other, to its end even if the asker does not wait for it, and have it written down."""
        if self._is_stopped:
            raise ChangeConflictError("the node stops")
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
                self._check_terms(terms)
                done = await do()
            except Exception as error:
                outcome = getattr(error, "code", "internal")
                self._audit.record(Action(author.who, author.origin, method, given, outcome, str(error)))
                raise
            self._audit.record(Action(author.who, author.origin, method, given | _said(done), DONE, ""))
            return done

    def _check_terms(self, terms: Terms) -> None:
        if terms.revision is not None and terms.revision != self.revision:
            raise ChangeConflictError(
                f"the change was made for revision {terms.revision}, but revision {self.revision} holds now: "
                "look at what changed, and ask again"
            )
        if terms.confirm_s is not None and not 1 <= terms.confirm_s <= _CONFIRM_S_MAX:
            raise ConfigRefusedError(
                [f"a change can wait from 1 to {_CONFIRM_S_MAX:.0f} seconds to be confirmed, found {terms.confirm_s:g}"]
            )

    async def _change(self, edit: Edit, author: Author, terms: Terms) -> ChangeOutcome:
        self._refuse_while_unconfirmed()
        wanted = await asyncio.to_thread(self._edited, edit)
        return await self._made(wanted, author, terms)

    async def _reload(self, author: Author, terms: Terms) -> ChangeOutcome:
        wanted = await asyncio.to_thread(self._read_again)
        if wanted.text != self._text():
            self._refuse_while_unconfirmed()
        return await self._made(wanted, author, terms)

    async def _roll_back(self, number: int, author: Author, terms: Terms) -> ChangeOutcome:
        revision = await self.show_revision(number)
        comment = terms.comment or f"back to revision {number}"
        edit = Edit(revision.text, WHOLE, name=f"revision {number}")
        wanted = await asyncio.to_thread(self._edited, edit)
        return await self._made(wanted, author, Terms(True, terms.revision, terms.confirm_s, comment))

    async def _confirm(self) -> int:
        if self._unconfirmed is None:
            raise ChangeConflictError(f"revision {self.revision} is not on trial: there is nothing to confirm")
        try:
            await asyncio.to_thread(self._files.confirm)
        except OSError as error:
            raise ConfigWriteError(f"the confirmation cannot be written, and the change goes back: {error}") from error
        self._unconfirmed = None
        return self.revision

    async def _go_back(self, unconfirmed: Unconfirmed) -> None:
        """Take back a change that was not confirmed; tried again with the next tick if that fails."""
        terms = Terms(force=True, comment=f"revision {unconfirmed.revision} was not confirmed in time")

        async def do() -> ChangeOutcome:
            if self._unconfirmed is not unconfirmed:  # confirmed, or taken back by a person
                return ChangeOutcome(self.revision)
            tree = parse_text(unconfirmed.before, name=str(self._files.cluster_file))
            layers = self.layers.with_cluster(tree)
            wanted = await asyncio.to_thread(lambda: _Wanted(layers, self._read(layers), unconfirmed.before))
            return await self._made(wanted, _ITSELF, terms)

        try:
            await self._recorded(_ITSELF, "config.rollback", terms, do)
        except Exception as error:  # noqa: BLE001 - whatever it is, an operator has to know
            told = f"{terms.comment}, but it cannot be taken back: {'; '.join(reasons(error))}"
            if self._alarms.activate(GO_BACK_ALARM, told, {"revision": unconfirmed.revision}):
                _log.error("%s", told)
        else:
            self._alarms.deactivate(GO_BACK_ALARM)

    def _edited(self, edit: Edit) -> _Wanted:
        """Runs in a thread, as reading may take long."""
        self._refuse_edited_file()
        try:
            tree = edited(self.layers, edit)
            layers = self.layers.with_cluster(tree)
            return _Wanted(layers, self._read(layers), to_hocon(tree))
        except ConfigError as error:
            raise ConfigRefusedError(reasons(error)) from error

    def _read_again(self) -> _Wanted:
        try:
            layers = self.layers.sources.read()
            return _Wanted(layers, self._read(layers), to_hocon(layers.files[CLUSTER]))
        except ConfigError as error:
            raise ConfigRefusedError(reasons(error)) from error

    def _refuse_edited_file(self) -> None:
        file = self._files.cluster_file
        try:
            present = parse_text(self._files.text(), name=str(file))
        except (OSError, HoconError) as error:
            raise ChangeConflictError(f"{file} cannot be read, and is not overwritten: {error}") from error
        if to_hocon(present) != self._text():
            raise ChangeConflictError(
                f"{file} was changed by another program than this node, and is not overwritten: "
                "have it read with `heliograph ctl conf reload`, or put it back"
            )

    def _refuse_while_unconfirmed(self) -> None:
        if self._unconfirmed is not None:
            raise ChangeConflictError(
                f"revision {self.revision} is on trial: confirm it (`heliograph ctl conf confirm`) or go back "
                f"(`heliograph ctl conf rollback {self.revision - 1}`) before the next change"
            )

    async def _prepared(self, wanted: _Wanted) -> Plan:
        try:
            return await self._parts.check(wanted.config)
        except Exception as error:
            raise ConfigRefusedError(reasons(error)) from error

    async def _made(self, wanted: _Wanted, author: Author, terms: Terms) -> ChangeOutcome:
        """Plan, prepare, write, commit."""
        plan = await self._prepared(wanted)
        try:
            settings = planned(self.layers, wanted.layers, plan.differences)
            if not terms.force:
                _refuse_hidden(settings)
            layers = wanted.layers
            if wanted.text != self._text():
                layers = await asyncio.to_thread(self._written, wanted, author, terms)
        except BaseException:
            self._parts.undo(plan)
            raise
        failed = self._parts.apply(plan)
        self.layers = layers
        self._tell(plan, failed)
        return self._outcome(plan, settings, failed)

    def _written(self, wanted: _Wanted, author: Author, terms: Terms) -> Layers:
        """Runs in a thread: the layers as they are read from then on, which know the lines of the new file."""
        now = self._now_s()
        number = self.revision + 1
        shown = to_hocon(masked(wanted.layers.files[CLUSTER], Config))
        revision = Revision(number, now, author.who, author.origin, terms.comment, digest_of(shown), shown)
        unconfirmed = None
        if terms.confirm_s is not None:
            unconfirmed = Unconfirmed(number, now + terms.confirm_s, self._text())
        content = document(number, wanted.text)
        layers = wanted.layers.with_cluster(parse_text(content, name=str(self._files.cluster_file)))
        try:
            self._files.write(revision, content, unconfirmed)
        except OSError as error:
            raise ConfigWriteError(
                f"{self._files.cluster_file} cannot be written, nothing is changed: {error}"
            ) from error
        self.revision, self._unconfirmed = number, unconfirmed
        return layers

    def _text(self) -> str:
        return to_hocon(self.layers.files[CLUSTER])

    def _tell(self, plan: Plan, failed: Mapping[str, str]) -> None:
        if failed:
            told = (
                f"parts of the node did not take a change: {', '.join(failed)}. A later change, or a restart, mends it"
            )
            self._alarms.activate(INCOMPLETE_ALARM, told, dict(failed))
        else:
            self._alarms.deactivate(INCOMPLETE_ALARM)
        self._changed(self.revision, plan)

    def _outcome(
        self, plan: Plan, settings: Sequence[PlannedSetting], failed: Mapping[str, str] | None = None
    ) -> ChangeOutcome:
        restart = [one.path for one in plan.differences if one.how is How.RESTART]
        return ChangeOutcome(self.revision, settings, restart, failed or {}, self.confirm_until)

    def __repr__(self) -> str:
        return f"ConfigManager(revision {self.revision})"


def _refuse_hidden(settings: Sequence[PlannedSetting]) -> None:
    found = [
        f"{one.path} = {one.new} has no effect: {one.shadowed_by} sets it to {one.old}"
        for one in settings
        if one.how == HIDDEN
    ]
    if found:
        raise HiddenChangeError("\n".join((*found, "Change it there, or write it nevertheless with --force")))


def _said(done: object) -> dict[str, object]:
    """What the audit log has of a result."""
    if not isinstance(done, ChangeOutcome):
        return {"revision": done}
    settings = [one.path for one in done.settings if one.how != HIDDEN]
    hidden = [one.path for one in done.settings if one.how == HIDDEN]
    return {"revision": done.revision, "settings": settings} | ({"hidden": hidden} if hidden else {})
