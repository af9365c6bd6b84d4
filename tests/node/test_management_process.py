"""What the log says of a management process that cannot serve."""

import logging
from pathlib import Path

import pytest

from heliograph.node.management import ManagementProcess
from support.alarms import unheard_alarms


def test_an_address_that_stays_taken_is_an_error_once(caplog: pytest.LogCaptureFixture, tmp_path: Path) -> None:
    process = ManagementProcess(b"{}", tmp_path, unheard_alarms())
    for reason in ("the port is taken", "the port is taken", "the certificate is not there"):
        process.hear({"failed": reason})
    process.hear({"serving": ["http://127.0.0.1:18083"]})
    process.hear({"failed": "the port is taken"})
    lines = [line.message for line in caplog.records if line.levelno == logging.ERROR]
    reasons = ["the port is taken", "the certificate is not there", "the port is taken"]
    assert [line.partition("no address: ")[2].partition(".")[0] for line in lines] == reasons
