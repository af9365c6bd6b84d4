"""What can be asked of the users of built-in databases, and done with them."""

import asyncio
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import partial
from typing import Final

import msgspec

from heliograph.access.passwords import PasswordPool, PasswordsBusyError
from heliograph.access.passwords.algorithms import PasswordTooLongError
from heliograph.access.users.intake import new_scram_user, user_with_password
from heliograph.access.users.records import PasswordUser, ScramUser, UserRecord, own_algorithm
from heliograph.access.users.scram import DIGESTS
from heliograph.access.users.store import UserExistsError, UserGroup, UserStore
from heliograph.channel.context import ChannelContext
from heliograph.config.authentication import BuiltInDatabaseConfig
from heliograph.control.proto_v1 import users as proto
from heliograph.control.slices import in_slices
from heliograph.control.stored import written
from heliograph.control.user_targets import UserTarget, UserTargets
from heliograph.mqtt import reason_codes as rc
from heliograph.rpc.methods import Call, Method, RpcError
from heliograph.settings.kinds import RefusedError

_WALK: Final = 200  # clients of one turn
_USER_ID_BYTES_MAX: Final = 65_535


def methods(store: UserStore, pool: PasswordPool, targets: UserTargets, context: ChannelContext) -> list[Method]:
    answers = UsersAnswers(store, pool, targets, context)
    return [
        proto.USERS_LIST.by(answers.list),
        proto.USERS_SHOW.by(answers.show),
        proto.USERS_ADD.by(answers.add),
        proto.USERS_SET.by(answers.set),
        proto.USERS_DELETE.by(answers.delete),
        proto.USERS_TARGET.by(answers.target),
        proto.USERS_PREPARE.by(answers.prepare),
        proto.USERS_IMPORT.by(answers.take),
        proto.USERS_EXPORT.by(answers.export),
    ]


class UsersAnswers:
    def __init__(self, store: UserStore, pool: PasswordPool, targets: UserTargets, context: ChannelContext) -> None:
        self._store = store
        self._pool = pool
        self._targets = targets
        self._context = context

    def list(self, args: proto.UsersWanted, call: Call) -> Iterator[Sequence[proto.UserRow]]:
        """Answer `users.list`: those that match, in the order of their ids."""
        found = self._wanted(args)
        return in_slices((None if one is None else _row(*one) for one in found), lambda row: len(row.user_id))

    def export(self, args: proto.UsersWanted, call: Call) -> Iterator[Sequence[proto.UserData]]:
        return in_slices(
            (None if one is None else _data(*one) for one in self._wanted(args)), lambda row: len(row.user_id)
        )

    def show(self, args: proto.UserName, call: Call) -> proto.UserRow:
        return _row(args.user_id, self._found(self._group(self._targets.find(args)), args.user_id))

    def target(self, args: proto.UsersOf, call: Call) -> proto.UsersTarget:
        """Answer `users.target`: where the users of a file go, and how their passwords are hashed."""
        return _target_row(self._targets.find(args))

    async def prepare(self, args: proto.UsersOf, call: Call) -> proto.UsersTarget:
        """Answer `users.prepare`: the same, after an authenticator was added where there was none."""
        return _target_row(await self._targets.find_or_make(args, call))

    async def add(self, args: proto.NewUser, call: Call) -> proto.UserDone:
        _check_id(args.user_id)
        target = await self._targets.find_or_make(args, call)
        record = await self._made(target, args.password, args.is_superuser)
        try:
            await written(self._group(target).add(args.user_id, record))
        except UserExistsError:
            raise RpcError(
                "already_exists", f"there is a user {args.user_id!r} already; `ctl users set` changes it"
            ) from None
        return proto.UserDone(_row(args.user_id, record), target.authenticator, target.made_in)

    async def set(self, args: proto.UserChange, call: Call) -> proto.UserDone:
        """Answer `users.set`: another password, or other rights."""
        if args.password is None and args.is_superuser is None:
            raise RpcError("user_invalid", "nothing is to be changed: give a password, or whether it is a superuser")
        target = self._targets.find(args)
        group = self._group(target)
        record = self._found(group, args.user_id)
        if args.password is not None:
            made = await self._made(target, args.password, is_superuser=False)
            # While the hash was made, the user may have been deleted, or have got other rights.
            record = _with_rights(made, self._found(group, args.user_id).is_superuser)
        if args.is_superuser is not None:
            record = _with_rights(record, args.is_superuser)
        await written(group.put(args.user_id, record))
        gone = await self._disconnect(target, {args.user_id}) if args.password is not None else 0
        return proto.UserDone(_row(args.user_id, record), target.authenticator, disconnected=gone)

    async def delete(self, args: proto.UserName, call: Call) -> proto.UserDone:
        target = self._targets.find(args)
        group = self._group(target)
        record = self._found(group, args.user_id)
        await written(group.delete(args.user_id))
        gone = await self._disconnect(target, {args.user_id})
        return proto.UserDone(_row(args.user_id, record), target.authenticator, disconnected=gone)

    async def take(self, args: proto.UsersImport, call: Call) -> proto.UsersImported:
        target = self._targets.find(args)
        kept = [(one.user_id, _record(one, target)) for one in args.users]
        counts = await written(self._group(target).take(kept, overwrite=True))
        gone = await self._disconnect(target, {user_id for user_id, _ in kept}) if counts.overwritten else 0
        return proto.UsersImported(counts.added, counts.overwritten, gone)

    def _wanted(self, wanted: proto.UsersWanted) -> Iterator[tuple[str, UserRecord] | None]:
        count = 0
        for user_id, record in self._group(self._targets.find(wanted)).walk(wanted.after):
            if wanted.like not in user_id or wanted.is_superuser not in (None, record.is_superuser):
                yield None
                continue
            yield user_id, record
            count += 1
            if count == wanted.limit:
                return

    def _group(self, target: UserTarget) -> UserGroup[UserRecord]:
        model: type[UserRecord] = PasswordUser if isinstance(target.settings, BuiltInDatabaseConfig) else ScramUser
        return self._store.group(model, target.chain, target.authenticator)

    def _found(self, group: UserGroup[UserRecord], user_id: str) -> UserRecord:
        record = group.find(user_id)
        if record is None:
            raise RpcError("not_found", f"there is no user {user_id!r}; `ctl users list` shows those that there are")
        return record

    async def _made(self, target: UserTarget, password: bytes, is_superuser: bool) -> UserRecord:
        """A record with a new password; slow hashes are made beside the event loop."""
        settings, is_slow = target.settings, True
        make: Callable[[], UserRecord]
        if isinstance(settings, BuiltInDatabaseConfig):
            algorithm = settings.password_hash_algorithm
            is_slow = algorithm.is_slow
            make = partial(user_with_password, password, algorithm, is_superuser=is_superuser)
        else:
            make = partial(new_scram_user, settings.algorithm, password, settings.iteration_count, is_superuser)
        try:
            return await self._pool.run(make) if is_slow else make()
        except PasswordTooLongError as error:
            raise RpcError("user_invalid", str(error)) from None
        except PasswordsBusyError:
            raise RpcError("overloaded", "too many logins wait for the check of their password; try again") from None

    async def _disconnect(self, target: UserTarget, user_ids: Collection[str]) -> int:
        """End the connections of some users, where the authenticator says so; how many it were."""
        if not target.settings.disconnect_on_user_change:
            return 0
        by_clientid = isinstance(target.settings, BuiltInDatabaseConfig) and target.settings.user_id_type == "clientid"
        ended = 0
        for count, channel in enumerate(self._context.channels.all(), 1):
            client = channel.client_info()
            name = None if client is None else client.clientid if by_clientid else client.username
            if client is not None and name in user_ids and self._targets.chain_of(client.listener) == target.chain:
                self._context.begin_turn()
                channel.shut_down(rc.NOT_AUTHORIZED)
                ended += 1
            if count % _WALK == 0:
                await asyncio.sleep(0)
        return ended


def _check_id(user_id: str) -> None:
    size = len(user_id.encode("utf-8", "surrogatepass"))
    if not 0 < size <= _USER_ID_BYTES_MAX:
        raise RpcError("user_invalid", f"the user id has {size} bytes; 1 to {_USER_ID_BYTES_MAX} are valid")


def _target_row(target: UserTarget) -> proto.UsersTarget:
    settings, made_in = target.settings, target.made_in
    if isinstance(settings, BuiltInDatabaseConfig):
        algorithm = settings.password_hash_algorithm
        own, rounds = own_algorithm(algorithm), algorithm.salt_rounds
        return proto.UsersTarget(
            target.chain, target.authenticator, settings.user_id_type, own, rounds, made_in=made_in
        )
    none = ("plain", None, None, None, None)
    digest, iterations = settings.algorithm, settings.iteration_count
    return proto.UsersTarget(target.chain, target.authenticator, "username", none, None, digest, iterations, made_in)


def _row(user_id: str, record: UserRecord) -> proto.UserRow:
    return proto.UserRow(user_id, record.is_superuser)


def _data(user_id: str, record: UserRecord) -> proto.UserData:
    if isinstance(record, PasswordUser):
        return proto.UserData(user_id, record.is_superuser, record.salt, record.password_hash, record.own)
    return proto.UserData(
        user_id,
        record.is_superuser,
        record.salt,
        stored_key=record.stored_key,
        server_key=record.server_key,
        iterations=record.iterations,
        digest=record.digest,
    )


def _record(user: proto.UserData, target: UserTarget) -> UserRecord:
    """The record of a user to import.

    Raises:
        RpcError: It does not fit this authenticator.
    """
    _check_id(user.user_id)
    if isinstance(target.settings, BuiltInDatabaseConfig):
        record = PasswordUser(user.password_hash, user.salt, user.is_superuser, user.algorithm)
        try:
            record.algorithm  # noqa: B018 - refuses one that cannot be
        except RefusedError as error:
            raise RpcError("user_invalid", f"user {user.user_id!r}: {error}") from None
        return record
    if not user.stored_key or not user.server_key or not user.salt or user.iterations < 1 or user.digest not in DIGESTS:
        raise RpcError("user_invalid", f"user {user.user_id!r} has no keys of SCRAM")
    return ScramUser(user.stored_key, user.server_key, user.salt, user.iterations, user.digest, user.is_superuser)


def _with_rights(record: UserRecord, is_superuser: bool) -> UserRecord:
    return msgspec.structs.replace(record, is_superuser=is_superuser)
