"""Cases of addresses, passwords, and what operators write for stores of users."""

from ipaddress import ip_address, ip_network
from typing import Final

from heliograph.access.passwords import hash_password, verify
from heliograph.access.passwords.algorithms import PasswordTooLongError
from heliograph.access.passwords.ldap_hash import verify_ldap_hash
from heliograph.access.users.files import FileUser, UserFileError, read_users
from heliograph.access.users.scram import DIGESTS, scram_keys
from heliograph.cli.access_cases.running import AccessAnswer, AccessCase, bytes_in, group_in, text_in
from heliograph.cli.batch import CaseError
from heliograph.config.backends.redis import RedisCommand, RedisCommandError, command_words
from heliograph.config.passwords import PasswordHashAlgorithm

_READERS: Final = {"authn": RedisCommand.of_user, "authz": RedisCommand.of_rules}


def ldap_hash_case(case: AccessCase) -> AccessAnswer:
    """Kind `ldap_hash`: whether a password belongs to the value of an attribute."""
    password = None if case.get("password") is None else bytes_in(case, "password")
    return {"result": verify_ldap_hash(bytes_in(case, "stored"), password)}


def redis_command_case(case: AccessCase) -> AccessAnswer:
    """Kind `redis_cmd`: the words of a command, if it is valid where it is used."""
    text, use = text_in(case, "cmd"), text_in(case, "use")
    if use not in _READERS:
        raise CaseError(f'"use" is {use!r}; {" and ".join(_READERS)} are valid')
    try:
        _READERS[use](text)
        return {"result": command_words(text)}
    except RedisCommandError as error:
        raise CaseError(str(error)) from None


def cidr_case(case: AccessCase) -> AccessAnswer:
    """Kind `cidr`: whether an address lies in a network."""
    text, address = text_in(case, "cidr"), text_in(case, "ip")
    _, slash, length = text.partition("/")
    if slash and not (length.isascii() and length.isdecimal()):  # a netmask is not allowed
        raise CaseError(f"{text!r} is no network; one looks like 10.0.0.0/8 or 2001:db8::/32")
    try:
        network, found = ip_network(text, strict=False), ip_address(address)
    except ValueError as error:
        raise CaseError(str(error)) from None
    return {"result": found in network}


def hash_case(case: AccessCase) -> AccessAnswer:
    """Kind `hash`: whether a password belongs to a stored hash."""
    algorithm = group_in(case, "algorithm", PasswordHashAlgorithm)
    stored, salt = bytes_in(case, "stored"), b"" if case.get("salt") is None else bytes_in(case, "salt")
    if case.get("password") is None:
        return {"result": False}
    return {"result": verify(algorithm, bytes_in(case, "password"), stored, salt)}


def bootstrap_case(case: AccessCase) -> AccessAnswer:
    """Kind `bootstrap`: the users of a bootstrap file."""
    algorithm, kind = group_in(case, "algorithm", PasswordHashAlgorithm), text_in(case, "type", "plain")
    users: dict[str, FileUser] = {}
    try:
        for user in read_users(bytes_in(case, "text"), text_in(case, "format"), kind):
            users.setdefault(user.user_id, user)
        return {"users": [_row(users[user_id], kind, algorithm) for user_id in sorted(users)]}
    except (UserFileError, PasswordTooLongError) as error:
        raise CaseError(str(error)) from None


def scram_keys_case(case: AccessCase) -> AccessAnswer:
    """Kind `scram_keys`: what is kept of a password."""
    algorithm, count = text_in(case, "algorithm", "sha256"), case.get("iteration_count", 4096)
    if algorithm not in DIGESTS:
        raise CaseError(f'"algorithm" is {algorithm!r}; sha256 and sha512 are valid')
    if not isinstance(count, int) or isinstance(count, bool) or count < 1:
        raise CaseError('"iteration_count" must be an integer of at least 1')
    try:
        salt = bytes.fromhex(text_in(case, "salt"))
    except ValueError:
        raise CaseError('"salt" must be hexadecimal digits') from None
    keys = scram_keys(algorithm, bytes_in(case, "password"), salt, count)
    return {"stored_key": keys.stored_key.hex(), "server_key": keys.server_key.hex()}


def _row(user: FileUser, kind: str, algorithm: PasswordHashAlgorithm) -> AccessAnswer:
    hashed, salt = (user.secret, user.salt) if kind == "hash" else hash_password(algorithm, user.secret)
    return {
        "user_id": user.user_id,
        "password_hash": hashed.decode("utf-8", "replace"),
        "salt": salt.decode("utf-8", "replace"),
        "is_superuser": user.is_superuser,
    }
