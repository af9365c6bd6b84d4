"""What users and API keys are called, which roles they have, and how many there may be; as EMQX, and `operator`."""

import re
from typing import Final

ADMINISTRATOR: Final = "administrator"
OPERATOR: Final = "operator"
VIEWER: Final = "viewer"
PUBLISHER: Final = "publisher"

USER_ROLES: Final = (ADMINISTRATOR, OPERATOR, VIEWER)
KEY_ROLES: Final = (*USER_ROLES, PUBLISHER)

KEYS_MAX: Final = 100
USERS_MAX: Final = 1_000
DESCRIPTION_MAX: Final = 1_024  # characters
_USERNAME: Final = re.compile(r"[A-Za-z0-9_]{1,100}", re.ASCII)
_KEY_NAME: Final = re.compile(r"[A-Za-z]+[A-Za-z0-9\-_]*", re.ASCII)
_KEY_NAME_MAX: Final = 256
_API_KEY: Final = re.compile(r"[!-9;-~]{1,256}", re.ASCII)  # what a bootstrap file may hold before its colon


class PeopleError(ValueError):
    """A name, role or description that is refused; the message says what was given and what is valid."""


def check_username(name: str) -> None:
    if not _USERNAME.fullmatch(name):
        raise PeopleError(
            f"{_shown(name)} is no name of a user; letters, digits and underscores are valid, 100 of them at most"
        )


def check_key_name(name: str) -> None:
    if len(name) > _KEY_NAME_MAX or not _KEY_NAME.fullmatch(name):
        raise PeopleError(
            f"{_shown(name)} is no name of an API key; a letter and then letters, digits, hyphens and underscores are "
            f"valid, {_KEY_NAME_MAX} of them at most"
        )


def check_api_key(api_key: str) -> None:
    if not _API_KEY.fullmatch(api_key):
        raise PeopleError("it is no API key; 1 to 256 printable characters without a colon or a space are valid")


def check_role(role: str, roles: tuple[str, ...]) -> None:
    if role not in roles:
        raise PeopleError(f"{_shown(role)} is no role; {', '.join(roles)} are valid")


def check_description(text: str) -> None:
    if len(text) > DESCRIPTION_MAX:
        raise PeopleError(f"the description has {len(text):,} characters; {DESCRIPTION_MAX:,} are valid")


def _shown(text: str) -> str:
    return repr(text if len(text) <= 100 else f"{text[:100]}...")
