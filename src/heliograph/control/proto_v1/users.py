"""Users of built-in databases: what is asked of them, and answers. Passwords never go out; hashes do in an export."""

import msgspec

from heliograph.rpc.asks import ACTS, STATE, Ask, ListAsk
from heliograph.rpc.methods import Args

#: Name, salt position, function, iterations and length of a `password_hash_algorithm`.
Algorithm = tuple[str, str | None, str | None, int | None, int | None]


class UsersOf(Args, frozen=True):
    """Whose users are meant.

    Attributes:
        chain: A listener with authenticators of its own, as `tcp:default`; empty for those of all others.
        mechanism: `password_based` or `scram`; empty for the one that there is.
    """

    chain: str = ""
    mechanism: str = ""


class UsersWanted(UsersOf, frozen=True):
    """Which users to list: those behind an id whose id has a text in it; so many at the most, 0 for all."""

    like: str = ""
    is_superuser: bool | None = None
    after: str = ""
    limit: int = 0


class UserName(UsersOf, frozen=True):
    """One user."""

    user_id: str = ""


class NewUser(UsersOf, frozen=True):
    """A user to add."""

    user_id: str = ""
    password: bytes = b""
    is_superuser: bool = False


class UserChange(UsersOf, frozen=True):
    """What changes of a user; None stays as it is."""

    user_id: str = ""
    password: bytes | None = None
    is_superuser: bool | None = None


class UserData(msgspec.Struct, frozen=True, omit_defaults=True):
    """All that is kept of a user, for import and export.

    Attributes:
        password_hash: Of `password_based`: the hash, with its salt, and its algorithm if that is its own.
        stored_key: Of `scram`: the keys of RFC 5802, with their salt, iterations and hash function.
    """

    user_id: str
    is_superuser: bool = False
    salt: bytes = b""
    password_hash: bytes = b""
    algorithm: Algorithm | None = None
    stored_key: bytes = b""
    server_key: bytes = b""
    iterations: int = 0
    digest: str = ""


class UsersImport(UsersOf, frozen=True):
    """Some users of a file that was checked as a whole; those that are there are overwritten."""

    users: tuple[UserData, ...] = ()


class UsersTarget(msgspec.Struct, frozen=True):
    """Where users go.

    Attributes:
        authenticator: Its id, as `password_based:built_in_database`.
        algorithm: How new passwords are hashed, and for bcrypt at what cost.
        digest: Of `scram`: the hash function; and the iterations.
        made_in: The revision of the configuration in which the authenticator was added; None if it was there.
    """

    chain: str
    authenticator: str
    user_id_type: str
    algorithm: Algorithm
    salt_rounds: int | None = None
    digest: str = ""
    iterations: int = 0
    made_in: int | None = None


class UserRow(msgspec.Struct, frozen=True):
    """A user."""

    user_id: str
    is_superuser: bool


class UserDone(msgspec.Struct, frozen=True):
    """What became of a user.

    Attributes:
        made_in: The revision of the configuration in which the authenticator was added; None if it was there.
        disconnected: How many connections of the user ended.
    """

    user: UserRow
    authenticator: str
    made_in: int | None = None
    disconnected: int = 0


class UsersImported(msgspec.Struct, frozen=True):
    """How many users are new, and how many were overwritten."""

    added: int
    overwritten: int
    disconnected: int = 0


USERS_LIST = ListAsk("users.list", UsersWanted, UserRow, STATE)
USERS_SHOW = Ask("users.show", UserName, UserRow, STATE)
USERS_ADD = Ask("users.add", NewUser, UserDone, STATE, ACTS, secrets=frozenset({"password"}))
USERS_SET = Ask("users.set", UserChange, UserDone, STATE, ACTS, secrets=frozenset({"password"}))
USERS_DELETE = Ask("users.delete", UserName, UserDone, STATE, ACTS)
USERS_TARGET = Ask("users.target", UsersOf, UsersTarget, STATE)
USERS_PREPARE = Ask("users.prepare", UsersOf, UsersTarget, STATE, ACTS)
USERS_IMPORT = Ask("users.import", UsersImport, UsersImported, STATE, ACTS, secrets=frozenset({"users"}))
USERS_EXPORT = ListAsk("users.export", UsersWanted, UserData, STATE, ACTS)
