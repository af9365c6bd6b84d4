"""Logins that have to wait are listed and lifted by those who ask a node."""

import pytest

from heliograph.access.bans.failed_logins import FailedLogins
from heliograph.config.address_limits import LoginBackoff
from heliograph.control import logins
from heliograph.control.proto_v1.logins import LoginAddress, WaitingLoginRow
from heliograph.rpc.methods import RpcError
from support.asking import Asker


def test_who_waits_is_listed_until_it_is_lifted_or_over() -> None:
    now = 0
    failed = FailedLogins(LoginBackoff(max_failures=1, max_failures_of_address=2))
    asked = Asker(logins.methods(failed, lambda: now))
    failed.failed_login(1, "192.0.2.1", "joe", now)
    failed.failed_login(1, "192.0.2.1", "ann", now)
    failed.failed_login(2, "192.0.2.2", "joe", now)
    failed.failed_login(3, "192.0.2.3", "joe", now, b"known")
    now = 250_000
    assert asked.rows("logins.list") == [
        WaitingLoginRow("192.0.2.1", "joe", 0.75),
        WaitingLoginRow("192.0.2.1", "ann", 0.75),
        WaitingLoginRow("192.0.2.1", "", 0.75),
        WaitingLoginRow("192.0.2.2", "joe", 0.75),
        WaitingLoginRow("192.0.2.3", "joe", 0.75, is_device=True),
    ]
    assert not failed.may_try(1, "other", now)
    assert asked.ask("logins.lift", LoginAddress("192.0.2.1")).count == 3
    assert failed.may_try(1, "joe", now)
    with pytest.raises(RpcError, match="waits; `ctl logins list` shows"):
        asked.ask("logins.lift", LoginAddress("192.0.2.1"))
    now = 1_000_000
    assert asked.rows("logins.list") == []
