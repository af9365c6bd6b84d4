"""Knows the browsers that a user logged in with before, by a cookie: guesses of others do not make them wait.

A name and an address are what a guesser has too, behind a proxy or a router at least, so neither can say whose try a
login is. The cookie can: it is signed, no script reads it, and only a login that passed all checks gives one. It is
no login. It is good for failures of its own in place of those that all strangers share, and ends with the next change
of the user, so that who had the password once gets no share for guessing the new one.
"""

import hashlib
import hmac
import secrets
from dataclasses import dataclass
from typing import Final

from heliograph.management.people.login_file import LoginFile

LIFE_S: Final = 180 * 86_400  # from the last login on
_KEY: Final = "devices"
_KEY_BYTES: Final = 32
_ID_BYTES: Final = 16
_COOKIE_MAX: Final = 256
_PARTS: Final = 3  # the id, the version of the user, and the signature


@dataclass(frozen=True, slots=True)
class Device:
    """A browser that a user logged in with; an empty id for one that is not known.

    Attributes:
        version: Of the user at that time; with another one it is not known any more.
    """

    id: str = ""
    version: str = ""

    def key(self, version: int) -> bytes:
        """What it is counted by while the user has a version; empty for what is not known."""
        return self.id.encode() if self.version == str(version) else b""


STRANGE: Final = Device()


class Devices:
    """Gives browsers their cookies, and reads them; owned by `Logins`.

    Attributes:
        cookie: The name of the cookie. Browsers send cookies to all ports of a host: another node's has another name.
    """

    def __init__(self, file: LoginFile) -> None:
        found = dict(file.rows("keys")).get(_KEY)
        self._secret: bytes = found or secrets.token_bytes(_KEY_BYTES)
        if found is None:
            file.put("keys", (_KEY, self._secret))
        self.cookie = f"heliograph_device_{hashlib.sha256(self._secret).hexdigest()[:8]}"

    def new(self, username: str, version: int) -> str:
        """The cookie of a device that a user has just logged in with."""
        signed = f"{secrets.token_urlsafe(_ID_BYTES)}.{version}"
        return f"{signed}.{self._signature(signed, username)}"

    def of(self, cookie: str, username: str) -> Device:
        """The device of a cookie, as far as it is that user's."""
        parts = cookie.split(".") if len(cookie) <= _COOKIE_MAX else []
        if len(parts) != _PARTS or not cookie.isascii():
            return STRANGE
        identity, version, signature = parts
        if not hmac.compare_digest(signature, self._signature(f"{identity}.{version}", username)):
            return STRANGE
        return Device(identity, version)

    def _signature(self, signed: str, username: str) -> str:
        data = f"{signed}.{username}".encode("utf-8", "surrogatepass")
        return hmac.new(self._secret, data, hashlib.sha256).hexdigest()
