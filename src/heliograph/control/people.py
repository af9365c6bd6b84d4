"""What can be asked of the API keys of a node and of the users who log in to manage it, and done with them.

Passwords and secrets never come here, only their hashes; those go to processes of the node's own user only, such as its
management process.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Final, TypeVar

import msgspec

from heliograph.access.people import names
from heliograph.access.people.passwords import is_hash
from heliograph.access.people.records import API_KEY, USER, ManagementUser, StoredApiKey
from heliograph.access.people.store import PeopleStore
from heliograph.control.proto_v1 import people as proto
from heliograph.control.slices import in_slices
from heliograph.control.stored import answering_storage_errors, written
from heliograph.rpc.methods import Call, Method, NoArgs, RpcError

Found = TypeVar("Found")

_DIGEST_BYTES: Final = 32
_RECOVERY_MAX: Final = 20
_TOTP_SECRET_MAX: Final = 64


def methods(store: PeopleStore, now_s: Callable[[], int]) -> list[Method]:
    """What can be asked: `people.revision`, and what begins with `people.user` and `people.key`.

    Args:
        now_s: The time, in seconds since the epoch.
    """
    users, keys = UserAnswers(store, now_s), KeyAnswers(store, now_s)
    return [
        proto.PEOPLE_REVISION.by(users.revision),
        proto.PEOPLE_USERS.by(users.list),
        proto.PEOPLE_USER_SECRETS.by(users.secrets),
        proto.PEOPLE_USER_ADD.by(users.add),
        proto.PEOPLE_USER_SET.by(users.set),
        proto.PEOPLE_USER_DELETE.by(users.delete),
        proto.PEOPLE_USER_SECOND_FACTOR.by(users.set_second_factor),
        proto.PEOPLE_USER_LOGGED_IN.by(users.logged_in),
        proto.PEOPLE_SSO_LOGGED_IN.by(users.sso_logged_in),
        proto.PEOPLE_KEYS.by(keys.list),
        proto.PEOPLE_KEY_SECRETS.by(keys.secrets),
        proto.PEOPLE_KEY_ADD.by(keys.add),
        proto.PEOPLE_KEY_SET.by(keys.set),
        proto.PEOPLE_KEY_DELETE.by(keys.delete),
    ]


class UserAnswers:
    def __init__(self, store: PeopleStore, now_s: Callable[[], int]) -> None:
        self._store = store
        self._now_s = now_s

    def revision(self, args: NoArgs, call: Call) -> proto.PeopleRevision:
        return proto.PeopleRevision(_read(lambda: self._store.revision))

    def list(self, args: NoArgs, call: Call) -> Iterator[Sequence[proto.ManagementUserRow]]:
        """Answer `people.users`: all, by their names."""
        return in_slices(_user_row(name, record) for name, record in _rows(self._store.users()))

    def secrets(self, args: NoArgs, call: Call) -> Iterator[Sequence[proto.ManagementUserSecrets]]:
        """Answer `people.user_secrets`: all, with what logins are checked against.

        Raises:
            RpcError: Another user of the machine asks.
        """
        _only_the_node(call)
        return in_slices(
            proto.ManagementUserSecrets(
                _user_row(name, one), one.version, one.password_hash, one.totp_secret, one.totp_step, one.recovery
            )
            for name, one in _rows(self._store.users())
        )

    async def add(self, args: proto.NewManagementUser, call: Call) -> proto.ManagementUserRow:
        _checked(
            lambda: names.check_username(args.username),
            lambda: names.check_role(args.role, names.USER_ROLES),
            lambda: names.check_description(args.description),
        )
        _check_hash(args.password_hash)
        count = _read(lambda: sum(1 for _ in self._store.users()))
        if (args.is_first or args.is_default) and count:
            raise RpcError("already_exists", "there is a user already; one that exists adds others")
        if _read(lambda: self._store.find_user(args.username)) is not None:
            raise RpcError("already_exists", f"there is a user {args.username!r} already")
        if count >= names.USERS_MAX:
            raise RpcError("people_full", f"there are {names.USERS_MAX:,} users already, as many as may be")
        record = ManagementUser(
            args.password_hash, args.description, args.role, 0, self._now_s(), is_default=args.is_default
        )
        return _user_row(args.username, await written(self._store.put_user(args.username, record)))

    async def set(self, args: proto.ManagementUserChange, call: Call) -> proto.ManagementUserRow:
        """Answer `people.user_set`: another password, role or description; what its tokens allowed ends."""
        changes: dict[str, str] = {}
        if args.role is not None:
            changes["role"] = role = args.role
            _checked(lambda: names.check_role(role, names.USER_ROLES))
            if args.keeps_administrator and role != names.ADMINISTRATOR:
                self._refuse_without_administrator(args.username)
        if args.description is not None:
            changes["description"] = text = args.description
            _checked(lambda: names.check_description(text))
        if args.password_hash is not None:
            _check_hash(args.password_hash)
            changes["password_hash"] = args.password_hash
        if not changes:
            raise _invalid("nothing is to be changed: give a password, a role or a description")
        record = msgspec.structs.replace(self._found(args.username), **changes)
        return _user_row(args.username, await written(self._store.put_user(args.username, record)))

    async def delete(self, args: proto.ManagementUserName, call: Call) -> proto.ManagementUserRow:
        record = self._found(args.username)
        if args.keeps_administrator:
            self._refuse_without_administrator(args.username)
        await written(self._store.delete(USER, args.username))
        return _user_row(args.username, record)

    async def set_second_factor(self, args: proto.SecondFactor, call: Call) -> proto.ManagementUserRow:
        """Answer `people.user_second_factor`: one is set, or there is none any more."""
        if len(args.totp_secret) > _TOTP_SECRET_MAX or len(args.recovery) > _RECOVERY_MAX:
            raise _invalid(f"a secret of {_TOTP_SECRET_MAX} bytes and {_RECOVERY_MAX} recovery codes are valid at most")
        if any(len(one) != _DIGEST_BYTES for one in args.recovery):
            raise _invalid(f"a recovery code is kept as a hash of {_DIGEST_BYTES} bytes")
        record = msgspec.structs.replace(
            self._found(args.username), totp_secret=args.totp_secret, totp_step=args.totp_step, recovery=args.recovery
        )
        return _user_row(args.username, await written(self._store.put_user(args.username, record)))

    async def logged_in(self, args: proto.ManagementLogin, call: Call) -> proto.PeopleRevision:
        """Answer `people.user_logged_in`: a login counts, and the code that it was made with is used up.

        Raises:
            RpcError: The user was changed since, or its code was used before.
        """
        record = self._found(args.username)
        if record.version != args.version:
            raise RpcError("login_outdated", f"user {args.username!r} was changed while it logged in")
        if record.totp_secret:
            record = _with_used_code(record, args)
            await written(self._store.put_user(args.username, record, ends_tokens=False))
        return proto.PeopleRevision(_read(lambda: self._store.revision))

    def sso_logged_in(self, args: proto.SsoLogin, call: Call) -> proto.PeopleRevision:
        return self.revision(NoArgs(), call)

    def _refuse_without_administrator(self, username: str) -> None:
        """Nothing is awaited between this and the change: of two at once the second one finds what the first left."""
        users = _read(lambda: dict(self._store.users()))
        if {name for name, one in users.items() if one.role == names.ADMINISTRATOR} == {username}:
            raise RpcError("last_administrator", f"{username!r} is the only administrator; make another one first")

    def _found(self, username: str) -> ManagementUser:
        record = _read(lambda: self._store.find_user(username))
        if record is None:
            raise RpcError("not_found", f"there is no user {username!r}; `ctl admins list` shows those that there are")
        return record


class KeyAnswers:
    def __init__(self, store: PeopleStore, now_s: Callable[[], int]) -> None:
        self._store = store
        self._now_s = now_s

    def list(self, args: NoArgs, call: Call) -> Iterator[Sequence[proto.ApiKeyRow]]:
        """Answer `people.keys`: all, by their names."""
        return in_slices(self._row(name, record) for name, record in _rows(self._store.api_keys()))

    def secrets(self, args: NoArgs, call: Call) -> Iterator[Sequence[proto.ApiKeySecrets]]:
        """Answer `people.key_secrets`: all, with what callers are checked against.

        Raises:
            RpcError: Another user of the machine asks.
        """
        _only_the_node(call)
        return in_slices(
            proto.ApiKeySecrets(self._row(name, record), record.secret_hash)
            for name, record in _rows(self._store.api_keys())
        )

    async def add(self, args: proto.NewApiKey, call: Call) -> proto.ApiKeyRow:
        _checked(
            lambda: names.check_key_name(args.name),
            lambda: names.check_api_key(args.api_key),
            lambda: names.check_role(args.role, names.KEY_ROLES),
            lambda: names.check_description(args.description),
        )
        if len(args.secret_hash) != _DIGEST_BYTES:
            raise _invalid(f"the hash of a secret has {_DIGEST_BYTES} bytes")
        kept = _read(lambda: {name: record.api_key for name, record in self._store.api_keys()})
        same = [name for name, api_key in kept.items() if args.name == name or args.api_key == api_key]
        if same and not args.replaces:
            if args.name in kept:
                raise RpcError("already_exists", f"there is an API key {args.name!r} already")
            raise RpcError("already_exists", f"an API key of another name is {args.api_key!r} already")
        if not same and len(kept) >= names.KEYS_MAX:
            raise RpcError("people_full", f"there are {len(kept)} API keys already; {names.KEYS_MAX} may be")
        record = StoredApiKey(
            args.api_key, args.secret_hash, args.description, args.role, args.enable, args.expires, self._now_s()
        )
        await written(self._store.put_keys({args.name: record}, same))
        return self._row(args.name, record)

    async def set(self, args: proto.ApiKeyChange, call: Call) -> proto.ApiKeyRow:
        """Answer `people.key_set`: another role, description, end, or whether it is enabled."""
        if args.role is not None:
            role = args.role
            _checked(lambda: names.check_role(role, names.KEY_ROLES))
        _checked(lambda: names.check_description(args.description or ""))
        old = self._found(args.name)
        record = msgspec.structs.replace(
            old,
            role=old.role if args.role is None else args.role,
            description=old.description if args.description is None else args.description,
            is_enabled=old.is_enabled if args.enable is None else args.enable,
            expires_s=old.expires_s if args.expires is None else args.expires or None,
        )
        await written(self._store.put_keys({args.name: record}))
        return self._row(args.name, record)

    async def delete(self, args: proto.ApiKeyName, call: Call) -> proto.ApiKeyRow:
        record = self._found(args.name)
        await written(self._store.delete(API_KEY, args.name))
        return self._row(args.name, record)

    def _found(self, name: str) -> StoredApiKey:
        record = _read(lambda: self._store.find_key(name))
        if record is None:
            raise RpcError("not_found", f"there is no API key {name!r}; `ctl api_keys list` shows those that there are")
        return record

    def _row(self, name: str, record: StoredApiKey) -> proto.ApiKeyRow:
        expired = record.expires_s is not None and record.expires_s <= self._now_s()
        return proto.ApiKeyRow(
            name,
            record.api_key,
            record.role,
            record.description,
            record.is_enabled,
            expired,
            record.expires_s,
            record.created_s,
        )


def _user_row(name: str, record: ManagementUser) -> proto.ManagementUserRow:
    return proto.ManagementUserRow(
        name,
        record.role,
        record.description,
        record.created_s,
        record.is_default,
        bool(record.totp_secret),
        len(record.recovery),
    )


def _with_used_code(record: ManagementUser, login: proto.ManagementLogin) -> ManagementUser:
    """The user after a code of its second factor was used.

    Raises:
        RpcError: It was used before, or is not one.
    """
    if login.recovery:
        left = tuple(one for one in record.recovery if one != login.recovery)
        if len(left) == len(record.recovery):
            raise RpcError("code_used", "the recovery code was used before")
        return msgspec.structs.replace(record, recovery=left)
    if login.totp_step <= record.totp_step:
        raise RpcError("code_used", "the code was used before; wait for the next one")
    return msgspec.structs.replace(record, totp_step=login.totp_step)


def _checked(*checks: Callable[[], None]) -> None:
    try:
        for check in checks:
            check()
    except names.PeopleError as error:
        raise _invalid(str(error)) from None


def _check_hash(password_hash: str) -> None:
    if not is_hash(password_hash):
        raise _invalid("the hash of the password is not one of argon2id with 19 MiB, 2 passes and 1 lane")


def _only_the_node(call: Call) -> None:
    if not call.is_ours:
        raise RpcError("not_permitted", "hashes are for the user only that the node runs as")


def _invalid(message: str) -> RpcError:
    return RpcError("people_invalid", message)


def _read(read: Callable[[], Found]) -> Found:
    with answering_storage_errors():
        return read()


def _rows(rows: Iterator[Found]) -> Iterator[Found]:
    with answering_storage_errors():
        yield from rows
