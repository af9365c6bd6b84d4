"""Checks the API key and the secret of a caller, sent as HTTP Basic."""

import base64
import binascii
import hmac
import time
from collections.abc import Callable
from typing import Final

from heliograph.access.people.api_keys import secret_hash_of
from heliograph.control.proto_v1.people import ApiKeySecrets
from heliograph.management.people.back_off import KEYS, BackOff
from heliograph.management.people.known import KnownPeople
from heliograph.management.people.refusals import bad_key, key_waits

_HEADER_MAX: Final = 4_096
_NO_HASH: Final = bytes(32)  # SHA-256 of nothing that is known


class KeyCheck:
    """Knows callers by their API keys; owned by `PeopleCallers`.

    Args:
        known: The keys.
        now_s: The time, in seconds since the epoch.
    """

    def __init__(self, known: KnownPeople, now_s: Callable[[], float] = time.time) -> None:
        self._known = known
        self._now_s = now_s
        self._back_off = BackOff(KEYS)

    async def check(self, encoded: str, address: str) -> ApiKeySecrets:
        """The key of a caller.

        Args:
            encoded: What stands behind `Basic` in the header.
            address: Of the caller.

        Raises:
            ApiError: It is not valid, or too many tries of it failed.
        """
        api_key, secret = _decoded(encoded)
        if not self._back_off.may_try(address, api_key):
            raise key_waits()
        found = (await self._known.fresh()).keys.get(api_key)
        stored = _NO_HASH if found is None else found.secret_hash
        is_right = hmac.compare_digest(stored, secret_hash_of(secret))
        if found is None or not is_right or not self.counts(found):
            self._back_off.failed(address, api_key)
            raise bad_key()
        self._back_off.succeeded(address, api_key)
        return found

    def counts(self, found: ApiKeySecrets) -> bool:
        """Whether a key is enabled and has not expired."""
        return found.key.enable and (found.key.expires is None or found.key.expires > self._now_s())


def _decoded(encoded: str) -> tuple[str, str]:
    """A key and its secret.

    Raises:
        ApiError: It is not one.
    """
    try:
        if len(encoded) > _HEADER_MAX:
            raise bad_key()
        api_key, colon, secret = base64.b64decode(encoded.strip(), validate=True).decode().partition(":")
    except (binascii.Error, ValueError):
        raise bad_key() from None
    if not colon or not secret:
        raise bad_key()
    return api_key, secret
