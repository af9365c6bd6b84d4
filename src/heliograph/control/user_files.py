"""The users of a file as a node takes them: read, checked and hashed by the caller, and kept by the node."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Final

from heliograph.access.users.files import FileUser, UserFileError, read_mosquitto
from heliograph.access.users.intake import checked_users, new_scram_user, user_of_file
from heliograph.config.passwords import PasswordHashAlgorithm
from heliograph.control.proto_v1 import users as proto

_SLICE: Final = 200
_MOSQUITTO: Final = "mosquitto"


@dataclass(frozen=True, slots=True)
class UserFile:
    """A file of users.

    Attributes:
        text: What it holds.
        form: `csv`, `json` or `mosquitto`.
        kind: What it has of passwords: `plain` or `hash`.
    """

    text: bytes
    form: str
    kind: str

    def check(self, algorithm: PasswordHashAlgorithm) -> int:
        """Read all of it; how many users it has.

        Raises:
            UserFileError: It cannot be used.
        """
        return sum(1 for _ in self._users(algorithm))

    def parts(self, target: proto.UsersTarget) -> Iterator[tuple[proto.UserData, ...]]:
        """Its users for an authenticator, some at a time; passwords are hashed as they are asked for.

        Raises:
            UserFileError: It cannot be used; nothing is to be sent of it then, so call `check` first.
        """
        algorithm = algorithm_of(target)
        kind = "hash" if self.form == _MOSQUITTO else self.kind
        if target.digest and kind == "hash":
            raise UserFileError(f"{target.authenticator} cannot check hashes of passwords: import passwords (plain)")
        waiting = (_data(user, kind, algorithm, target) for user in self._users(algorithm))
        while part := tuple(islice(waiting, _SLICE)):
            yield part

    def _users(self, algorithm: PasswordHashAlgorithm) -> Iterator[FileUser]:
        if self.form == _MOSQUITTO:
            return read_mosquitto(self.text)
        return checked_users(self.text, self.form, self.kind, algorithm)

    def __repr__(self) -> str:
        return f"UserFile({self.form}, {self.kind}, {len(self.text)} bytes)"


def algorithm_of(target: proto.UsersTarget) -> PasswordHashAlgorithm:
    """How an authenticator hashes new passwords."""
    name, salt_position, mac_fun, iterations, dk_length = target.algorithm
    return PasswordHashAlgorithm(name, salt_position, target.salt_rounds, mac_fun, iterations, dk_length)


def _data(user: FileUser, kind: str, algorithm: PasswordHashAlgorithm, target: proto.UsersTarget) -> proto.UserData:
    if target.digest:
        made = new_scram_user(target.digest, user.secret, target.iterations, user.is_superuser)
        return proto.UserData(
            user.user_id,
            made.is_superuser,
            made.salt,
            stored_key=made.stored_key,
            server_key=made.server_key,
            iterations=made.iterations,
            digest=made.digest,
        )
    record = user_of_file(user, kind, algorithm)
    return proto.UserData(user.user_id, record.is_superuser, record.salt, record.password_hash, record.own)
