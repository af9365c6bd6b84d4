"""Users of the HTTP API and API keys: what is asked of them, and answers. Times are seconds since the epoch."""

from typing import Annotated

import msgspec

from heliograph.control.columns import SECOND_US, Fact, TimeS
from heliograph.rpc.asks import ACTS, STATE, Ask, ListAsk
from heliograph.rpc.methods import Args, NoArgs


class ManagementUserName(Args, frozen=True):
    """One user.

    Attributes:
        keeps_administrator: Refuse to delete the only administrator.
    """

    username: str
    keeps_administrator: bool = False


class NewManagementUser(Args, frozen=True):
    """A user to add.

    Attributes:
        password_hash: As `access.people.passwords.hash_of` makes it; the node never sees the password.
        is_default: Whether it is that of the configuration, which is added only where there is no user at all.
        is_first: Refuse it where there is a user already.
    """

    username: str
    password_hash: str
    role: str = "administrator"
    description: str = ""
    is_default: bool = False
    is_first: bool = False


class ManagementUserChange(Args, frozen=True):
    """What is to be changed of a user; None stays.

    Attributes:
        password_hash: As in `NewManagementUser`.
        keeps_administrator: Refuse another role for the only administrator.
    """

    username: str
    password_hash: str | None = None
    role: str | None = None
    description: str | None = None
    keeps_administrator: bool = False


class SecondFactor(Args, frozen=True):
    """The second factor of a user.

    Attributes:
        totp_secret: The secret that its codes are made of; empty for no second factor any more.
        recovery: SHA-256 of the recovery codes.
        totp_step: The time step of the code that it was enrolled with, which is used up.
    """

    username: str
    totp_secret: bytes = b""
    recovery: tuple[bytes, ...] = ()
    totp_step: int = 0


class ManagementLogin(Args, frozen=True):
    """A user has shown that it is one.

    Attributes:
        version: Of the user whose password was checked: that of a user who was changed meanwhile counts nothing.
        address: From where.
        totp_step: The time step of its code, which counts once; 0 for none.
        recovery: SHA-256 of the recovery code that was used in its place.
    """

    username: str
    version: int
    address: str
    totp_step: int = 0
    recovery: bytes = b""


class SsoLogin(Args, frozen=True):
    """A user has logged in at a provider of identities.

    Attributes:
        role: By the provider.
        address: From where.
    """

    username: str
    role: str
    address: str


class ManagementUserRow(msgspec.Struct, frozen=True):
    """A user, without what is secret.

    Attributes:
        recovery_codes: How many recovery codes are left.
    """

    username: str
    role: str
    description: str
    created_at: Annotated[int, Fact(is_shown=False)]
    is_default: Annotated[bool, Fact(is_shown=False)]
    has_second_factor: Annotated[bool, Fact("mfa", answered=lambda has_one: "totp" if has_one else "none", answers=str)]
    recovery_codes: Annotated[int, Fact(is_shown=False)] = 0


class ManagementUserSecrets(msgspec.Struct, frozen=True):
    """A user as logins are checked against it."""

    user: ManagementUserRow
    version: int
    password_hash: str
    totp_secret: bytes
    totp_step: int
    recovery: tuple[bytes, ...]


class ApiKeyName(Args, frozen=True):
    """One API key."""

    name: str


class NewApiKey(Args, frozen=True):
    """An API key to add.

    Attributes:
        secret_hash: SHA-256 of its secret, which the node never sees.
        expires: When it ends; None for never.
        replaces: Whether it takes the place of those of the same name or key, which is refused otherwise.
    """

    name: str
    api_key: str
    secret_hash: bytes
    role: str = "administrator"
    description: str = ""
    enable: bool = True
    expires: int | None = None
    replaces: bool = False


class ApiKeyChange(Args, frozen=True):
    """What is to be changed of an API key; None stays.

    Attributes:
        expires: When it ends; 0 for never.
    """

    name: str
    role: str | None = None
    description: str | None = None
    enable: bool | None = None
    expires: int | None = None


class ApiKeyRow(msgspec.Struct, frozen=True):
    """An API key, without its secret."""

    name: str
    api_key: str
    role: str
    description: Annotated[str, Fact("desc")]
    enable: bool
    expired: bool
    expires: Annotated[int | None, Fact("expired_at", time_us=SECOND_US, unknown="infinity")]
    created_at: TimeS


class ApiKeySecrets(msgspec.Struct, frozen=True):
    """An API key as callers are checked against it."""

    key: ApiKeyRow
    secret_hash: bytes


class PeopleRevision(msgspec.Struct, frozen=True):
    """The number of the last change of users and API keys; 0 before the first."""

    revision: int


_HASHED = frozenset({"password_hash"})

PEOPLE_REVISION = Ask("people.revision", NoArgs, PeopleRevision, STATE, is_vital=True)
PEOPLE_USERS = ListAsk("people.users", NoArgs, ManagementUserRow, STATE)
PEOPLE_USER_SECRETS = ListAsk("people.user_secrets", NoArgs, ManagementUserSecrets, STATE, is_vital=True)
PEOPLE_USER_ADD = Ask("people.user_add", NewManagementUser, ManagementUserRow, STATE, ACTS, secrets=_HASHED)
PEOPLE_USER_SET = Ask("people.user_set", ManagementUserChange, ManagementUserRow, STATE, ACTS, secrets=_HASHED)
PEOPLE_USER_DELETE = Ask("people.user_delete", ManagementUserName, ManagementUserRow, STATE, ACTS)
PEOPLE_USER_SECOND_FACTOR = Ask(
    "people.user_second_factor",
    SecondFactor,
    ManagementUserRow,
    STATE,
    ACTS,
    secrets=frozenset({"totp_secret", "recovery"}),
)
PEOPLE_USER_LOGGED_IN = Ask(
    "people.user_logged_in",
    ManagementLogin,
    PeopleRevision,
    STATE,
    ACTS,
    is_vital=True,
    secrets=frozenset({"recovery"}),
)
PEOPLE_SSO_LOGGED_IN = Ask("people.sso_logged_in", SsoLogin, PeopleRevision, STATE, ACTS, is_vital=True)
PEOPLE_KEYS = ListAsk("people.keys", NoArgs, ApiKeyRow, STATE)
PEOPLE_KEY_SECRETS = ListAsk("people.key_secrets", NoArgs, ApiKeySecrets, STATE, is_vital=True)
PEOPLE_KEY_ADD = Ask("people.key_add", NewApiKey, ApiKeyRow, STATE, ACTS, secrets=frozenset({"secret_hash"}))
PEOPLE_KEY_SET = Ask("people.key_set", ApiKeyChange, ApiKeyRow, STATE, ACTS)
PEOPLE_KEY_DELETE = Ask("people.key_delete", ApiKeyName, ApiKeyRow, STATE, ACTS)
