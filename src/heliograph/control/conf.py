"""The configuration of a node: what holds, changes of it, and its revisions."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Iterable, Iterator, Sequence
from itertools import chain, islice
from typing import TypeVar

import msgspec

from heliograph.config.effective import effective_settings, inherited_settings
from heliograph.config.settings import Config
from heliograph.config_changes.edits import MERGE, REPLACE, Edit, path_of
from heliograph.config_changes.errors import ConfigChangeError
from heliograph.config_changes.manager import ConfigManager
from heliograph.config_changes.revisions import Revision, revision_differences
from heliograph.config_changes.terms import Author, ChangeOutcome, Terms
from heliograph.control.proto_v1 import conf as proto
from heliograph.hocon.document import parse_text
from heliograph.hocon.writing import key_text, to_hocon
from heliograph.rpc.methods import SLICE, Call, Method, NoArgs, RpcError
from heliograph.settings.fields import settings_of
from heliograph.settings.masking import masked

Row = TypeVar("Row")
Answer = TypeVar("Answer")


def methods(manager: ConfigManager) -> list[Method]:
    """`conf.*`; the manager writes changes and refused attempts into the audit log itself."""
    asked = _Asked(manager)
    return [
        proto.CONF_SHOW.by(asked.show),
        proto.CONF_STATE.by(asked.state),
        proto.CONF_KEYS.by(lambda args, call: sliced(_keys())),
        proto.CONF_PLAN.by(asked.plan),
        proto.CONF_CHANGE.by(asked.change),
        proto.CONF_RELOAD.by(asked.reload),
        proto.CONF_CONFIRM.by(asked.confirm),
        proto.CONF_REVISIONS.by(asked.revisions),
        proto.CONF_REVISION.by(asked.revision),
        proto.CONF_DIFF.by(asked.diff),
        proto.CONF_ROLLBACK.by(asked.rollback),
        proto.CONF_PLAN_ROLLBACK.by(asked.plan_rollback),
    ]


class _Near:
    """What there is beside a setting that there is not, in the deepest group around it."""

    def __init__(self, path: str) -> None:
        parts = path.split(".")
        self._groups = [".".join(parts[:count]) for count in range(len(parts) - 1, 0, -1)]
        self._found: dict[str, dict[str, None]] = {group: {} for group in self._groups}

    def look_at(self, paths: Sequence[str]) -> None:
        """Look at some of the settings that there are."""
        for path in paths:
            for group in self._groups:
                if path.startswith(group + "."):
                    self._found[group][path[len(group) + 1 :].partition(".")[0]] = None
                    break

    def text(self) -> str:
        for group, names in self._found.items():
            if names:
                return f"in {group} there are {', '.join(names)}"
        return f"roots are {', '.join(settings_of(Config))}"


class _Asked:
    def __init__(self, manager: ConfigManager) -> None:
        self._manager = manager

    def show(self, args: proto.ConfShowArgs, call: Call) -> Iterator[Sequence[proto.ConfSetting]]:
        try:
            path = ".".join(map(key_text, path_of(args.path))) if args.path else ""
        except ConfigChangeError as error:
            raise refused(error) from None
        return self._shown(path, args)

    def _shown(self, path: str, args: proto.ConfShowArgs) -> Iterator[Sequence[proto.ConfSetting]]:
        is_empty, near = True, _Near(path)
        root = path.partition(".")[0]  # all else is not looked at: it is most of what there is
        layers = self._manager.layers
        found = effective_settings(layers, root, hides_sent=args.hides_sent)
        inherited = inherited_settings(layers) if args.inherited and root in ("", "zones") else ()
        for slice_ in sliced(chain(found, inherited), 10):
            rows = [
                proto.ConfSetting(
                    one.path, one.value, one.origin, one.how.value, one.plain, one.secrets, one.inherited_from
                )
                for one in slice_
                if not path or one.path == path or one.path.startswith(path + ".")
            ]
            is_empty = is_empty and not rows
            if is_empty and path:
                near.look_at([one.path for one in slice_])
            yield rows
        if is_empty and path and path not in settings_of(Config):  # a root may be empty, as zones
            raise RpcError("config_no_setting", f"there is no setting at {path}; {near.text()}")

    async def state(self, args: NoArgs, call: Call) -> proto.ConfState:
        """Which revision holds, and whether it is on trial."""
        return proto.ConfState(self._manager.revision, self._manager.confirm_until or 0.0)

    async def plan(self, args: proto.ConfChangeArgs, call: Call) -> proto.ConfOutcome:
        return _outcome(await answered(self._manager.plan(_edit(args), _terms(args))))

    async def change(self, args: proto.ConfChangeArgs, call: Call) -> proto.ConfOutcome:
        return _outcome(await answered(self._manager.change(_edit(args), author_of(call), _terms(args))))

    async def reload(self, args: NoArgs, call: Call) -> proto.ConfOutcome:
        return _outcome(await answered(self._manager.reload(author_of(call))))

    async def confirm(self, args: NoArgs, call: Call) -> proto.ConfOutcome:
        return proto.ConfOutcome(await answered(self._manager.confirm(author_of(call))))

    async def rollback(self, args: proto.ConfRollbackArgs, call: Call) -> proto.ConfOutcome:
        return _outcome(await answered(self._manager.roll_back(args.number, author_of(call), _terms(args))))

    async def plan_rollback(self, args: proto.ConfRollbackArgs, call: Call) -> proto.ConfOutcome:
        return _outcome(await answered(self._manager.plan_roll_back(args.number, _terms(args))))

    async def revisions(self, args: NoArgs, call: Call) -> AsyncIterator[Sequence[proto.ConfRevision]]:
        """All that are kept, without their texts."""
        for slice_ in sliced(await self._manager.revisions()):
            yield [_revision(one, "") for one in slice_]

    async def revision(self, args: proto.ConfRevisionArgs, call: Call) -> proto.ConfRevision:
        found = await self._kept(args.number, args.hides_sent)
        return _revision(found, found.text)

    async def diff(self, args: proto.ConfDiffArgs, call: Call) -> AsyncIterator[Sequence[proto.ConfDifference]]:
        """What two of them do not have alike."""
        old, new = await self._kept(args.old, args.hides_sent), await self._kept(args.new, args.hides_sent)
        for slice_ in sliced(revision_differences(old, new)):
            yield [proto.ConfDifference(one.path, one.old or "", one.new or "") for one in slice_]

    async def _kept(self, number: int, hides_sent: bool) -> Revision:
        found = await answered(self._manager.show_revision(number))
        return await asyncio.to_thread(_without_sent, found) if hides_sent else found


def _without_sent(revision: Revision) -> Revision:
    tree = masked(parse_text(revision.text, name="<revision>"), Config, hides_sent=True)
    return msgspec.structs.replace(revision, text=to_hocon(tree))


def sliced(rows: Iterable[Row], most: int = SLICE) -> Iterator[Sequence[Row]]:
    left = iter(rows)
    while slice_ := list(islice(left, most)):
        yield slice_


async def answered(asked: Awaitable[Answer]) -> Answer:
    """What a change came to.

    Raises:
        RpcError: It was refused, and why.
    """
    try:
        return await asked
    except ConfigChangeError as error:
        raise refused(error) from None


def refused(error: ConfigChangeError) -> RpcError:
    return RpcError(error.code, str(error))


def _keys() -> Iterator[proto.ConfKey]:
    return (proto.ConfKey(name, setting.description) for name, setting in settings_of(Config).items())


def _edit(args: proto.ConfChangeArgs) -> Edit:
    if args.mode not in (MERGE, REPLACE):
        raise RpcError("config_change_refused", f"found mode {args.mode!r}, expected {MERGE} or {REPLACE}")
    return Edit(args.text, args.mode, args.values, args.name)


def author_of(call: Call) -> Author:
    return Author(call.who, call.origin)


def _terms(args: proto.ConfChangeArgs | proto.ConfRollbackArgs) -> Terms:
    return Terms(
        force=isinstance(args, proto.ConfChangeArgs) and args.force,
        revision=args.revision if args.revision >= 0 else None,
        confirm_s=args.confirm_s or None,
        comment=args.comment,
    )


def _outcome(outcome: ChangeOutcome) -> proto.ConfOutcome:
    settings = tuple(
        proto.ConfPlanned(one.path, one.old, one.new, one.how, one.shadowed_by) for one in outcome.settings
    )
    until = outcome.confirm_until or 0.0
    failed = dict(outcome.failed)
    return proto.ConfOutcome(outcome.revision, settings, tuple(outcome.restart), failed, until, outcome.is_new)


def _revision(one: Revision, text: str) -> proto.ConfRevision:
    return proto.ConfRevision(one.number, one.time, one.who, one.origin, one.comment, one.digest, text)
