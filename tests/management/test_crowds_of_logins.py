"""Many tries of one name at once are no more guesses than one after the other; who guessed codes waits."""

import asyncio
import time
from collections import Counter
from pathlib import Path

from heliograph.control.proto_v1.people import ManagementUserRow, ManagementUserSecrets
from heliograph.management.asking.nodes import Node, Nodes
from heliograph.management.people.back_off import CODES, LOGINS
from heliograph.management.people.known import KnownPeople, People
from heliograph.management.people.logins import Logins
from heliograph.management.people.totp import STEP_S, code_at, new_totp_secret
from heliograph.management.web.errors import ApiError


class _Nobody(KnownPeople):
    """There is no user."""

    async def fresh(self) -> People:
        """None."""
        return People()


async def test_a_crowd_of_guesses_waits_as_each_would(tmp_path: Path) -> None:
    node: Node = Nodes("heliograph@127.0.0.1", tmp_path).own()
    logins = Logins(_Nobody(node), tmp_path / "logins.sqlite3", 60.0)

    async def guess(number: int) -> str:
        try:
            await logins.verified("ann", f"guess {number}", "192.0.2.1")
        except ApiError as error:
            return error.code
        return ""

    answers = Counter(await asyncio.gather(*(guess(number) for number in range(40))))
    logins.stop()
    assert answers.keys() == {"BAD_USERNAME_OR_PWD", "TOO_MANY_REQUESTS"}
    assert LOGINS.max_failures <= answers["BAD_USERNAME_OR_PWD"] < 2 * LOGINS.max_failures + 1


def test_after_guessed_codes_the_right_one_has_to_wait_too(tmp_path: Path) -> None:
    node: Node = Nodes("heliograph@127.0.0.1", tmp_path).own()
    logins = Logins(_Nobody(node), tmp_path / "logins.sqlite3", 60.0)
    secret = new_totp_secret()
    user = ManagementUserSecrets(ManagementUserRow("ann", "viewer", "", 0, False, True), 1, "", secret, 0, ())

    def answer(code: str) -> str:
        try:
            logins.check_code(user, code, "192.0.2.1")
        except ApiError as error:
            return error.code
        return ""

    assert answer(code_at(secret, int(time.time()) // STEP_S)) == ""
    assert {answer("0000000") for _ in range(CODES.max_failures)} == {"BAD_MFA_TOKEN"}
    assert answer(code_at(secret, int(time.time()) // STEP_S)) == "TOO_MANY_REQUESTS"
    logins.stop()
