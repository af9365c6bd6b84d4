"""A started node that is changed from a shell, killed, and started again."""

import json
import os
import signal
from pathlib import Path

import pytest

from heliograph.cli.main import main
from support.process import NodeProcess
from support.waiting import wait_until

pytestmark = [pytest.mark.service, pytest.mark.slow]


def ctl(node: NodeProcess, *words: str) -> int:
    return main(["ctl", "conf", *words, "--data-dir", str(node.data_dir)])


def test_a_change_that_was_not_confirmed_goes_back_before_the_next_start_reads_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "base.hocon").write_text("mqtt.max_inflight = 7\n")
    with NodeProcess(tmp_path, "durable_storage.flight.enable = false") as node:
        assert ctl(node, "set", "mqtt.max_inflight=64") == 0
        assert ctl(node, "set", "mqtt.max_inflight=65", "mqtt.max_topic_levels=9", "--confirm", "600") == 0
        node.kill()
        trial = node.data_dir / "configs" / "unconfirmed.json"
        trial.write_text(json.dumps(json.loads(trial.read_text()) | {"until": 1.0}))
        node.start()
        capsys.readouterr()
        assert ctl(node, "show", "mqtt", "--origins") == 0
        shown = capsys.readouterr().out
        file = node.data_dir / "configs" / "cluster.hocon"
        assert f"mqtt.max_inflight = 64  # cluster: {file}:5\n" in shown
        assert "mqtt.max_topic_levels = 128  # defaults\n" in shown
        assert "revision 2 was not confirmed in time" in node.log.read_text()
        assert ctl(node, "set", "mqtt.max_inflight=null") == 0
        assert ctl(node, "show", "mqtt.max_inflight", "--origins") == 0
        assert f"# base: {tmp_path}/base.hocon:1" in capsys.readouterr().out
        # What a person writes there is read on SIGHUP, and is a revision then.
        file.write_text("mqtt.max_inflight = 12\n")
        os.kill(node.pid, signal.SIGHUP)
        wait_until(lambda: "# revision 5" in file.read_text(), "the file is taken over")
        assert node.stop() == 0
