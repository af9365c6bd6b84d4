"""What holds in a running node, and the steps in which another configuration takes its place.

    validate    the layers with the change are read as at a start, with the checks of all languages in them
    prepare     every part makes ready what can fail: binds, reads certificates, compiles
    plan        what differs, how each setting changes, and what a higher layer hides
    write       the revision, then `cluster.hocon`, each forced to the disk
    commit      every part applies it, in one turn of the event loop; then the hook point `config.changed` is run

Whatever fails before the commit, everything is as it was. One configuration is made at a time, which `manager` sees to.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from heliograph.config.layers import CLUSTER, Layers
from heliograph.config.settings import Config
from heliograph.config_changes.edits import Edit, edited
from heliograph.config_changes.errors import (
    ChangeConflictError,
    ConfigRefusedError,
    ConfigWriteError,
    HiddenChangeError,
    NotForKeysError,
    reasons,
)
from heliograph.config_changes.files import ConfigFiles, document
from heliograph.config_changes.pem_files import PemFiles
from heliograph.config_changes.planning import HIDDEN, PlannedSetting, planned, sets_only_what_holds
from heliograph.config_changes.revisions import Revision, Unconfirmed, digest_of
from heliograph.config_changes.terms import Author, ChangeOutcome, Terms
from heliograph.hocon.document import parse_text
from heliograph.hocon.errors import HoconError
from heliograph.hocon.values import Node
from heliograph.hocon.writing import to_hocon
from heliograph.observe.alarms import Alarms
from heliograph.parts import Parts, Plan
from heliograph.settings.errors import ConfigError
from heliograph.settings.fields import Section
from heliograph.settings.masking import masked
from heliograph.settings.secrets import SecretError

INCOMPLETE_ALARM: Final = "config_change_incomplete"

# What makes users and keys, or leads to them. A key that changed it would outlive its own end.
_WHO_MANAGES: Final = "which says who may manage the node"
_NOT_FOR_KEYS: Final[Mapping[str, str]] = {
    "api_key": _WHO_MANAGES,
    "dashboard.default_username": _WHO_MANAGES,
    "dashboard.default_password": _WHO_MANAGES,
    "dashboard.sso": _WHO_MANAGES,
    "node.control_group": _WHO_MANAGES,
    "backup.place": "where users and keys go with all else",
    "pipeline.spark_conf": "which names programs that the node runs",
}

Changed = Callable[[int, Plan], object]


@dataclass(frozen=True, slots=True)
class WantedConfig:
    """A configuration that is to hold, with its layers and the text of the cluster's."""

    layers: Layers
    config: Config
    text: str


@dataclass(frozen=True, slots=True)
class _Written:
    """A revision that is on the disk, and the layers from then on, which know the lines of the new file."""

    number: int
    unconfirmed: Unconfirmed | None
    layers: Layers


class HeldConfig:
    """The configuration that holds in one running node; owned by the manager of its changes.

    Args:
        read: What layers say, checked in all languages; raises `ConfigError`.
        alarms: Where an alarm stands after a change that a part did not make.
        changed: Called with the revision and what changed, in the turn of the change.
    """

    def __init__(
        self,
        layers: Layers,
        files: ConfigFiles,
        parts: Parts,
        read: Callable[[Layers], Config],
        alarms: Alarms,
        changed: Changed,
        now_s: Callable[[], float],
    ) -> None:
        self.layers = layers
        self.revision = files.number()
        self.unconfirmed: Unconfirmed | None = files.unconfirmed()
        self._is_recorded = _is_recorded(files, self.revision, layers)
        self._files = files
        self.pem_files = PemFiles(files.cluster_file.parents[1], now_s)
        self._parts = parts
        self._read = read
        self._alarms = alarms
        self._changed = changed
        self._now_s = now_s
        self._unsettled: list[Plan] = []  # applied, and on trial

    @property
    def text(self) -> str:
        return to_hocon(self.layers.files[CLUSTER])

    def edited(self, edit: Edit) -> WantedConfig:
        """What an edit leads to, or `ConfigChangeError`; waits for the disk."""
        self._refuse_edited_file()
        try:
            tree = self._stored(edited(self.layers, edit))
            layers = self.layers.with_cluster(tree)
            return WantedConfig(layers, self._read(layers), to_hocon(tree))
        except (ConfigError, SecretError) as error:
            raise ConfigRefusedError(reasons(error)) from error

    def _stored(self, tree: Node) -> Node:
        try:
            return self.pem_files.stored(tree, Section(Config))
        except OSError as error:
            raise ConfigWriteError(f"a certificate or key of the change cannot be written: {error}") from error

    def read_again(self) -> WantedConfig:
        """What all files say now, or `ConfigRefusedError`; waits for the disk."""
        try:
            layers = self.layers.sources.read()
            return WantedConfig(layers, self._read(layers), to_hocon(layers.files[CLUSTER]))
        except (ConfigError, SecretError) as error:
            raise ConfigRefusedError(reasons(error)) from error

    def restored(self, text: str) -> WantedConfig:
        """What an earlier text of the layer of the cluster leads to, or `ConfigRefusedError`."""
        tree = parse_text(text, name=str(self._files.cluster_file))
        layers = self.layers.with_cluster(tree)
        try:
            return WantedConfig(layers, self._read(layers), text)
        except (ConfigError, SecretError) as error:
            raise ConfigRefusedError(reasons(error)) from error

    def refuse_while_unconfirmed(self) -> None:
        if self.unconfirmed is not None:
            raise ChangeConflictError(
                f"revision {self.revision} is on trial: confirm it (`heliograph ctl conf confirm`) or go back "
                f"(`heliograph ctl conf rollback {self.revision - 1}`) before the next change"
            )

    def _refuse_edited_file(self) -> None:
        file = self._files.cluster_file
        try:
            present = parse_text(self._files.text(), name=str(file))
        except (OSError, HoconError) as error:
            raise ChangeConflictError(f"{file} cannot be read, and is not overwritten: {error}") from error
        if to_hocon(present) != self.text:
            raise ChangeConflictError(
                f"{file} was changed by another program than this node, and is not overwritten: "
                "read it with `heliograph ctl conf reload`, or put it back"
            )

    async def _prepared(self, wanted: WantedConfig) -> Plan:
        try:
            return await self._parts.check(wanted.config)
        except Exception as error:
            raise ConfigRefusedError(reasons(error)) from error

    async def plan(self, wanted: WantedConfig) -> ChangeOutcome:
        """Every part has said that it can take it (else `ConfigRefusedError`); nothing is changed."""
        plan = await self._prepared(wanted)
        self._parts.undo(plan)
        return self._outcome(plan, await self._planned(wanted, plan))

    async def make(self, wanted: WantedConfig, author: Author, terms: Terms) -> ChangeOutcome:
        """Prepare, write, commit. After a `ConfigChangeError` everything is as it was."""
        plan = await self._prepared(wanted)
        try:
            settings = await self._planned(wanted, plan)
            if author.is_api_key:
                _refuse_to_keys(settings)
            if not terms.force:
                _refuse_hidden(settings)
            written: _Written | None = None
            is_idle = await self._is_idle(wanted, plan, settings, terms)
            if not is_idle and (wanted.text != self.text or not self._is_recorded):
                written = await asyncio.to_thread(self._written, wanted, author, terms)
        except BaseException:
            self._parts.undo(plan)
            raise
        # In one turn: who sees the new number with the old settings would take back what it does not see.
        if written is not None:
            self.revision, self.unconfirmed, self._is_recorded = written.number, written.unconfirmed, True
        failed = self._parts.apply(plan)
        if not is_idle:
            self.layers = wanted.layers if written is None else written.layers
        self._unsettled.append(plan)
        if self.unconfirmed is None:
            self._settle()
        self._tell(plan, failed)
        return self._outcome(plan, settings, failed, written is not None)

    def confirmed(self) -> None:
        self.unconfirmed = None
        self._settle()

    def _settle(self) -> None:
        plans, self._unsettled = self._unsettled, []
        for plan in plans:
            self._parts.settle(plan)

    async def _is_idle(
        self, wanted: WantedConfig, plan: Plan, settings: Sequence[PlannedSetting], terms: Terms
    ) -> bool:
        """Whether a change would only repeat what holds, as the default: then nothing is written, unless by force."""
        if settings or plan.restart or terms.force or not self._is_recorded:
            return False
        return await asyncio.to_thread(sets_only_what_holds, self.layers, wanted.layers)

    async def _planned(self, wanted: WantedConfig, plan: Plan) -> list[PlannedSetting]:
        return await asyncio.to_thread(planned, self.layers, wanted.layers, plan.differences)

    def _written(self, wanted: WantedConfig, author: Author, terms: Terms) -> _Written:
        """Runs in a thread: write the revision and the file."""
        now = self._now_s()
        number = self.revision + 1
        shown = _shown(wanted.layers)
        revision = Revision(number, now, author.who, author.origin, terms.comment, digest_of(shown), shown)
        unconfirmed = None
        if terms.confirm_s is not None:
            unconfirmed = Unconfirmed(number, now + terms.confirm_s, self.text)
        content = document(number, wanted.text)
        layers = wanted.layers.with_cluster(parse_text(content, name=str(self._files.cluster_file)))
        try:
            self._files.write(revision, content, unconfirmed)
        except OSError as error:
            raise ConfigWriteError(
                f"{self._files.cluster_file} cannot be written, nothing is changed: {error}"
            ) from error
        self.pem_files.remove_unused(lambda: self._named(layers))
        return _Written(number, unconfirmed, layers)

    def _named(self, layers: Layers) -> Iterator[str]:
        """All texts that may name a file: what holds, what held before, and what there is to go back to."""
        yield to_hocon(layers.merged)
        yield self.text
        for revision in self._files.revisions():
            yield revision.text

    def _tell(self, plan: Plan, failed: Mapping[str, str]) -> None:
        if failed:
            text = (
                f"parts of the node did not take a change: {', '.join(failed)}. A later change, or a restart, mends it"
            )
            self._alarms.activate(INCOMPLETE_ALARM, text, dict(failed))
        else:
            self._alarms.deactivate(INCOMPLETE_ALARM)
        self._changed(self.revision, plan)

    def _outcome(
        self,
        plan: Plan,
        settings: Sequence[PlannedSetting],
        failed: Mapping[str, str] | None = None,
        is_new: bool = False,
    ) -> ChangeOutcome:
        until = None if self.unconfirmed is None else self.unconfirmed.until
        return ChangeOutcome(self.revision, settings, plan.restart, failed or {}, until, is_new)

    def __repr__(self) -> str:
        return f"HeldConfig(revision {self.revision})"


def _shown(layers: Layers) -> str:
    return to_hocon(masked(layers.files[CLUSTER], Config))


def _is_recorded(files: ConfigFiles, number: int, layers: Layers) -> bool:
    """Not where the layer was changed by hand while no node ran."""
    revision = files.revision(number)
    return revision is not None and revision.text == _shown(layers)


def _refuse_to_keys(settings: Sequence[PlannedSetting]) -> None:
    for one in settings:
        for path, why in _NOT_FOR_KEYS.items():
            if f"{one.path}.".startswith(f"{path}.") or f"{path}.".startswith(f"{one.path}."):
                raise NotForKeysError(f"API keys do not change {path}, {why}: log in as a user")


def _refuse_hidden(settings: Sequence[PlannedSetting]) -> None:
    found = [
        f"{one.path} = {one.new} has no effect: {one.shadowed_by} sets "
        + (f"it to {one.old}" if one.old else "what it is a part of")
        for one in settings
        if one.how == HIDDEN
    ]
    if found:
        raise HiddenChangeError(
            "\n".join((*found, "Change it there, or write it nevertheless with `ctl conf set --force`"))
        )
