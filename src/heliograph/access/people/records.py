"""Users and API keys as records of the state database `people`. A key is a letter and the name."""

from typing import Final, TypeVar

import msgspec

USER: Final = b"U"
API_KEY: Final = b"K"
REVISION: Final = b"R"  # one record: the number of the last change


class ManagementUser(msgspec.Struct, array_like=True, frozen=True):
    """A user who logs in with a password.

    Attributes:
        version: The revision in which it was changed the last time: tokens of an earlier one have ended.
        is_default: Whether it was made of `dashboard.default_username`; such a one stays.
        totp_secret: The secret of its second factor; empty where it has none.
        totp_step: The time step of the last code that was used: that one and earlier ones are used up.
        recovery: SHA-256 of the recovery codes that are left.
    """

    password_hash: str
    description: str
    role: str
    version: int
    created_s: int
    is_default: bool = False
    totp_secret: bytes = b""
    totp_step: int = 0
    recovery: tuple[bytes, ...] = ()


class StoredApiKey(msgspec.Struct, array_like=True, frozen=True):
    """An API key.

    Attributes:
        api_key: The part that is no secret; no other has the same.
        expires_s: When it ends, in seconds since the epoch; None for never.
    """

    api_key: str
    secret_hash: bytes
    description: str
    role: str
    is_enabled: bool
    expires_s: int | None
    created_s: int


RecordT = TypeVar("RecordT", ManagementUser, StoredApiKey)


def key_of(kind: bytes, name: str) -> bytes:
    return kind + name.encode()


def encode(record: ManagementUser | StoredApiKey) -> bytes:
    return msgspec.msgpack.encode(record)


def decode(kind: type[RecordT], value: bytes) -> RecordT:
    return msgspec.msgpack.decode(value, type=kind)


def decode_revision(value: bytes) -> int:
    if len(value) != 8:
        raise ValueError(f"a revision has 8 bytes, and this {len(value)}")
    return int.from_bytes(value)
