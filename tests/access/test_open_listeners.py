"""A node is not opened to strangers without leave: neither at its start, nor while it runs."""

from pathlib import Path

import pytest

from heliograph.config_changes.edits import Edit
from heliograph.config_changes.errors import ConfigRefusedError
from heliograph.config_changes.terms import Terms
from support.live_node import ALICE, BASE, LiveNode

pytestmark = pytest.mark.service

AUTHENTICATED = 'authentication = [{ mechanism = cinfo, checks = [{ is_match = "true", result = allow }] }]\n'


async def change(live: LiveNode, **settings: str) -> None:
    edit = Edit(values=[(path.replace("__", "."), text) for path, text in settings.items()])
    await live.manager.change(edit, ALICE, Terms())


async def test_a_running_node_is_opened_with_leave_or_with_an_authenticator_only(tmp_path: Path) -> None:
    live = await LiveNode(tmp_path).start()
    try:
        for bind in ('"0.0.0.0:0"', '"[::]:0"'):
            with pytest.raises(ConfigRefusedError, match="every client that reaches it would be let in"):
                await change(live, listeners__tcp__default__bind=bind)
        assert "127.0.0.1" in live.node.ready_line()
        opened = {"listeners__tcp__default__bind": '"0.0.0.0:0"'}
        await change(live, **opened, listeners__tcp__default__allow_anonymous_network="true")
        assert "tcp://0.0.0.0:" in live.node.ready_line()
        with pytest.raises(ConfigRefusedError, match="allow_anonymous_network = true"):
            await change(live, listeners__tcp__default__allow_anonymous_network="false")
    finally:
        await live.stop()


async def test_the_last_authenticator_of_an_open_listener_stays(tmp_path: Path) -> None:
    live = await LiveNode(tmp_path, AUTHENTICATED, BASE + 'listeners.tcp.default.bind = "0.0.0.0:0"\n').start()
    try:
        for settings in (
            {"listeners__tcp__default__enable_authn": "false"},
            {"listeners__tcp__other__bind": '"0.0.0.0:0"', "listeners__tcp__other__enable_authn": "false"},
        ):
            with pytest.raises(ConfigRefusedError, match="heliograph ctl users add NAME"):
                await change(live, **settings)
    finally:
        await live.stop()
