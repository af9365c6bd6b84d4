"""What the kernel has to say to the log."""

import pytest

from heliograph.node.reports import HookFailureLog


def test_a_cause_is_told_once_with_what_it_means(caplog: pytest.LogCaptureFixture) -> None:
    log = HookFailureLog()

    def fail() -> None:
        raise RuntimeError("no such table")

    def fail_elsewhere() -> None:
        raise RuntimeError("no such table")

    for name, callback in [("client.connect", fail), ("message.publish", fail), ("client.connect", fail_elsewhere)]:
        for _ in range(3):
            try:
                callback()
            except RuntimeError as error:
                log(name, error)
    lines = [record.getMessage() for record in caplog.records]
    assert len(lines) == 3
    assert lines[0].startswith("a callback of hook point client.connect failed and refuses its client")
    assert lines[1].startswith("a callback of hook point message.publish failed and was skipped")
    assert [str(record.exc_info[1]) for record in caplog.records if record.exc_info] == ["no such table"] * 3
