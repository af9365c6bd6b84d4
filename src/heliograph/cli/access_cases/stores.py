"""Cases of what operators write for stores of users, and of what stores hold."""

from typing import Final

from heliograph.access.passwords.ldap_hash import verify_ldap_hash
from heliograph.cli.access_cases.running import AccessAnswer, AccessCase, bytes_in, text_in
from heliograph.cli.batch import CaseError
from heliograph.config.backends.redis import RedisCommand
from heliograph.config.backends.redis_command import RedisCommandError, command_words

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
