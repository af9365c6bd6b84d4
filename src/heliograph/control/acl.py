"""What can be asked of the rules of the built-in database, and done with them."""

import asyncio
from collections.abc import Iterator, Sequence
from typing import Any, Final, TypeAlias

from heliograph.access.acl.rows import RowError, rule_of_row
from heliograph.access.authorization.part import AuthorizationPart
from heliograph.access.built_in_rules.record import ALL, KINDS
from heliograph.access.built_in_rules.store import BuiltInRules, OwnRules
from heliograph.config.authorization import BuiltInDatabaseSourceConfig
from heliograph.control.proto_v1 import acl as proto
from heliograph.control.slices import LoopTurn, in_slices
from heliograph.control.stored import answering_storage_errors
from heliograph.rpc.codes import BAD_ARGUMENTS
from heliograph.rpc.methods import Call, Method, RpcError

_Rows: TypeAlias = list[dict[str, Any]]

_MODES: Final = ("replace", "rear", "front", "new")


def methods(store: BuiltInRules, authorization: AuthorizationPart) -> list[Method]:
    answers = AclAnswers(store, authorization)
    return [
        proto.ACL_LIST.by(answers.list),
        proto.ACL_SHOW.by(answers.show),
        proto.ACL_CHANGE.by(answers.change),
        proto.ACL_DELETE.by(answers.delete),
        proto.ACL_CLEAR.by(answers.clear),
    ]


class AclAnswers:
    def __init__(self, store: BuiltInRules, authorization: AuthorizationPart) -> None:
        self._store = store
        self._authorization = authorization
        self._writing = asyncio.Lock()  # what a change was checked against holds until it is written

    def list(self, args: proto.AclWanted, call: Call) -> Iterator[Sequence[proto.AclRules]]:
        """Answer `acl.list`: whose rules there are, and which."""
        kinds = [_kind(args.kind)] if args.kind else KINDS
        return in_slices(self._rows(kinds, args), lambda row: 200 * len(row.rules))

    def show(self, args: proto.AclOwner, call: Call) -> proto.AclRules:
        return proto.AclRules(args.kind, args.name, self._found(args.kind, args.name))

    async def change(self, args: proto.AclChange, call: Call) -> proto.AclChanged:
        """Answer `acl.change`: set rules, or add some; all of them or none."""
        if args.mode not in _MODES:
            raise RpcError(BAD_ARGUMENTS, f"the mode is {args.mode!r}; {', '.join(_MODES)} are valid")
        async with self._writing:
            turn, most = LoopTurn(), self._rules_max
            changes = [await self._changed(own, args.mode, most, turn) for own in args.owners]
            return await self._put(changes)

    async def delete(self, args: proto.AclRemoval, call: Call) -> proto.AclChanged:
        """Answer `acl.delete`: remove a rule, or all rules of one."""
        async with self._writing:
            rows = self._found(args.kind, args.name)
            if args.number:
                if not 1 <= args.number <= len(rows):
                    whose = _whose(args.kind, args.name)
                    raise RpcError("not_found", f"{whose} has no rule {args.number}; there are 1 to {len(rows)}")
                del rows[args.number - 1]
            else:
                rows = []
            return await self._put([OwnRules(args.kind, args.name, rows)])

    async def clear(self, args: proto.AclClearing, call: Call) -> proto.AclChanged:
        """Answer `acl.clear`: remove all rules of a kind, or all."""
        kinds = [_kind(args.kind)] if args.kind else KINDS
        async with self._writing:
            with answering_storage_errors():
                self._store.open()
                await self._store.clear(kinds)
        return proto.AclChanged(0, 0, self._is_asked)

    # --- inside

    def _rows(self, kinds: Sequence[str], args: proto.AclWanted) -> Iterator[proto.AclRules | None]:
        count = 0
        self._store.open()
        with answering_storage_errors():
            for own in self._store.walk(kinds):
                if args.like not in own.name:
                    yield None
                    continue
                yield proto.AclRules(own.kind, own.name, own.rows)
                count += 1
                if count == args.limit:
                    return

    async def _changed(self, own: proto.AclRules, mode: str, most: int, turn: LoopTurn) -> OwnRules:
        kind, name = _kind(own.kind), own.name
        if (kind == ALL) != (not name):
            raise RpcError(BAD_ARGUMENTS, f"{kind} needs {'no name' if kind == ALL else 'a name'}; found {name!r}")
        whose = _whose(kind, name)
        _check_count(whose, len(own.rules), most)  # before each of them is looked at
        rows = [dict(row) for row in own.rules]
        for number, row in enumerate(rows, 1):
            _check(row, f"rule {number} of {whose}")
            await turn.pause()
        if mode != "replace":
            there = self._get(kind, name)
            if there and mode == "new":
                raise RpcError("already_exists", f"{whose} has rules already; `ctl acl set` replaces them")
            rows = [*rows, *there] if mode == "front" else [*there, *rows]
            _check_count(whose, len(rows), most)
        await turn.pause()
        return OwnRules(kind, name, rows)

    async def _put(self, changes: Sequence[OwnRules]) -> proto.AclChanged:
        with answering_storage_errors():
            self._store.open()
            await self._store.put(changes)
        return proto.AclChanged(len(changes), sum(len(own.rows) for own in changes), self._is_asked)

    def _found(self, kind: str, name: str) -> _Rows:
        rows = self._get(_kind(kind), name)
        if not rows:
            raise RpcError("not_found", f"{_whose(kind, name)} has no rules; `ctl acl list` shows those that have")
        return rows

    def _get(self, kind: str, name: str) -> _Rows:
        with answering_storage_errors():
            self._store.open()
            return self._store.get(kind, name)

    @property
    def _is_asked(self) -> bool:
        return "built_in_database" in self._authorization.sources

    @property
    def _rules_max(self) -> int:
        for settings in self._authorization.settings.sources:
            if isinstance(settings, BuiltInDatabaseSourceConfig):
                return settings.max_rules
        return BuiltInDatabaseSourceConfig().max_rules


def _kind(kind: str) -> str:
    if kind not in KINDS:
        raise RpcError(BAD_ARGUMENTS, f"{kind!r} is not what rules can be for; {', '.join(KINDS)} are valid")
    return kind


def _whose(kind: str, name: str) -> str:
    return "the list for all clients" if kind == ALL else f"{kind} {name!r}"


def _check_count(whose: str, count: int, most: int) -> None:
    if count > most:
        raise RpcError(
            "acl_too_many",
            f"{whose} would have {count} rules; at most {most} are valid (max_rules of the source built_in_database)",
        )


def _check(row: dict[str, Any], place: str) -> None:
    try:
        rule_of_row(row)
    except RowError as error:
        raise RpcError("acl_invalid", f"{place}: {error}") from None
