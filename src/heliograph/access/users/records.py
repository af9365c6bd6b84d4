"""What is kept of a user: the record of each kind of database, as bytes and as it comes in files."""

from typing import Final, TypeVar

import msgspec

from heliograph.config.passwords import PasswordHashAlgorithm

OwnAlgorithm = tuple[str, str | None, str | None, int | None, int | None]


class PasswordUser(msgspec.Struct, frozen=True, array_like=True):
    """A user of `password_based:built_in_database`.

    Attributes:
        own: The algorithm of this hash (name, salt position, function, iterations, length); None for that of the
            authenticator.
    """

    password_hash: bytes
    salt: bytes = b""
    is_superuser: bool = False
    own: OwnAlgorithm | None = None

    @property
    def algorithm(self) -> PasswordHashAlgorithm | None:
        if self.own is None:
            return None
        name, salt_position, mac_fun, iterations, dk_length = self.own
        return PasswordHashAlgorithm(name, salt_position, None, mac_fun, iterations, dk_length)

    def __repr__(self) -> str:
        return f"PasswordUser(is_superuser={self.is_superuser})"  # an error that shows one shows no hash


class ScramUser(msgspec.Struct, frozen=True, array_like=True):
    """A user of `scram:built_in_database`, with the keys of `scram_keys`; its digest is `sha256` or `sha512`."""

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
    return _ENCODER.encode(record)
