"""What is kept of a user: the record of each kind of database, as bytes and as it comes in files."""

from typing import Final, TypeVar

import msgspec

from heliograph.config.passwords import PasswordHashAlgorithm

OwnAlgorithm = tuple[str, str | None, str | None, int | None, int | None]


class PasswordUser(msgspec.Struct, frozen=True, array_like=True):
    """A user of `password_based:built_in_database`.

    Attributes:
        password_hash: The hash, as `access.passwords` compares it.
        salt: The salt; empty for none.
        own: The algorithm of this hash (name, salt position, function, iterations, length); None for that of the
            authenticator.
    """

    password_hash: bytes
    salt: bytes = b""
    is_superuser: bool = False
    own: OwnAlgorithm | None = None

    @property
    def algorithm(self) -> PasswordHashAlgorithm | None:
        """The algorithm of this hash; None for that of the authenticator."""
        if self.own is None:
            return None
        name, salt_position, mac_fun, iterations, dk_length = self.own
        return PasswordHashAlgorithm(name, salt_position, None, mac_fun, iterations, dk_length)

    def __repr__(self) -> str:
        return f"PasswordUser(is_superuser={self.is_superuser})"  # an error that shows one shows no hash


class ScramUser(msgspec.Struct, frozen=True, array_like=True):
    """A user of `scram:built_in_database`.

    Attributes:
        stored_key: See `scram_keys`.
        server_key: Likewise.
        salt: The salt.
        iterations: The iterations of the keys.
        digest: `sha256` or `sha512`.
    """

    stored_key: bytes
    server_key: bytes
    salt: bytes
    iterations: int
    digest: str
    is_superuser: bool = False

    def __repr__(self) -> str:
        return f"ScramUser({self.digest}, is_superuser={self.is_superuser})"


UserRecord = PasswordUser | ScramUser
UserRecordT = TypeVar("UserRecordT", bound=PasswordUser | ScramUser)


def own_algorithm(algorithm: PasswordHashAlgorithm) -> OwnAlgorithm:
    return algorithm.name, algorithm.salt_position, algorithm.mac_fun, algorithm.iterations, algorithm.dk_length


_ENCODER: Final = msgspec.msgpack.Encoder()


def encode(record: UserRecord) -> bytes:
    """A record as the database keeps it."""
    return _ENCODER.encode(record)
