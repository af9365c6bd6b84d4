"""Enrolment of a second factor: a secret that waits until its user has shown the first code of it."""

import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Final

from heliograph.control.proto_v1.people import PEOPLE_USER_SECOND_FACTOR, SecondFactor
from heliograph.management.asking.nodes import Node
from heliograph.management.people import refusals, totp
from heliograph.management.people.back_off import CODES, EVERYWHERE, BackOff
from heliograph.management.web.errors import ApiError

_LIFE_S: Final = 600.0
_WAITING_MAX: Final = 1_000


class Enrolments:
    """Secrets that are not confirmed yet, one of each user at most; owned by `PeopleCallers`.

    Args:
        now_s: The time, in seconds since the epoch.
    """

    def __init__(self, now_s: Callable[[], float] = time.time) -> None:
        self._now_s = now_s
        self._waiting: OrderedDict[str, tuple[bytes, float]] = OrderedDict()
        self._back_off = BackOff(CODES)

    def begin(self, username: str) -> bytes:
        """A new secret for a user, in the place of one that waited."""
        self._waiting.pop(username, None)
        secret = totp.new_totp_secret()
        self._waiting[username] = secret, self._now_s() + _LIFE_S
        if len(self._waiting) > _WAITING_MAX:
            self._waiting.popitem(last=False)
        return secret

    async def confirm(self, username: str, code: str, node: Node) -> list[str]:
        """Turn the secret on, and end the user's logins; return the recovery codes, which are shown once.

        Raises:
            ApiError: No secret waits, or the code is not one of it.
            RpcError: The node does not keep it.
        """
        secret, until_s = self._waiting.get(username, (b"", 0.0))
        if self._now_s() > until_s:
            raise ApiError(400, "BAD_REQUEST", "no second factor waits for its first code; begin again")
        if not self._back_off.may_try(EVERYWHERE, username):
            raise refusals.too_often()
        step = totp.step_of(secret, code, self._now_s())
        if not step:
            self._back_off.failed(EVERYWHERE, username)
            raise ApiError(400, "BAD_REQUEST", "the code is not one of this secret; is the clock of the device right?")
        codes = totp.new_recovery_codes()
        hashes = tuple(totp.recovery_hash_of(one) for one in codes)
        wanted = SecondFactor(username, secret, hashes, step)
        self._waiting.pop(username, None)  # one that is confirmed at the same time would have other recovery codes
        try:
            await node.ask(PEOPLE_USER_SECOND_FACTOR(wanted))
        except BaseException:
            self._waiting.setdefault(username, (secret, until_s))
            raise
        return codes
