"""The log's lines, its places, and what happens when one of them cannot be written."""

import json
import logging
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from heliograph.config.log import LogConfig, LogFileConfig, LogTargetConfig
from heliograph.observe.log_output import LogFileError, LogOutput, open_targets

_LOGGER = logging.getLogger("heliograph.tests.log")
_FILE = LogFileConfig(enable=True, path="log/node.log")


@pytest.fixture
def output() -> Iterator[LogOutput]:
    """An output that is installed."""
    root = logging.getLogger()
    level, installed = root.level, LogOutput()
    root.addHandler(installed)
    yield installed
    installed.use([])
    root.removeHandler(installed)
    root.setLevel(level)


def file_of(output: LogOutput, tmp_path: Path, settings: LogFileConfig = _FILE) -> Path:
    """Have the log go to a file alone."""
    output.use(open_targets(LogConfig(LogTargetConfig(enable=False), settings), tmp_path))
    return tmp_path / settings.path


def test_text_has_time_level_and_logger(output: LogOutput, tmp_path: Path) -> None:
    path = file_of(output, tmp_path, replace(_FILE, time_offset="utc"))
    _LOGGER.info("one %d", 1)
    _LOGGER.debug("not wanted")
    (line,) = path.read_text().splitlines()
    date, clock, rest = line.split(" ", 2)
    assert rest == "INFO heliograph.tests.log: one 1"
    datetime.strptime(f"{date} {clock}", "%Y-%m-%d %H:%M:%S,%f")
    assert path.stat().st_mode & 0o077 == 0, "others may not read it"


def test_json_is_one_object_a_line_with_all_that_an_entry_has(output: LogOutput, tmp_path: Path) -> None:
    path = file_of(output, tmp_path, replace(_FILE, formatter="json", time_offset="+02:00"))
    _LOGGER.warning("first\nsecond %s", "ä", extra={"clientid": "c1", "path": Path("/x")})
    try:
        raise ValueError("broken")
    except ValueError:
        _LOGGER.exception("failed")
    first, second = map(json.loads, path.read_text().splitlines())
    when = datetime.fromisoformat(first.pop("time"))
    assert when.utcoffset() == timedelta(hours=2)
    assert first == {
        "level": "warning",
        "logger": "heliograph.tests.log",
        "msg": "first\nsecond ä",
        "clientid": "c1",
        "path": "/x",
    }
    assert second["exception"].endswith("ValueError: broken")


def test_times_can_be_numbers(output: LogOutput, tmp_path: Path) -> None:
    path = file_of(output, tmp_path, replace(_FILE, formatter="json", timestamp_format="epoch"))
    _LOGGER.info("x")
    assert json.loads(path.read_text())["time"] > 1_700_000_000_000_000


def test_each_place_has_its_own_level(output: LogOutput, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    settings = LogConfig(LogTargetConfig(level="error"), LogFileConfig(enable=True, level="debug"))
    output.use(open_targets(settings, tmp_path))
    _LOGGER.debug("little")
    _LOGGER.error("much")
    assert [line.rpartition(": ")[2] for line in capsys.readouterr().err.splitlines()] == ["much"]
    assert (tmp_path / "log" / "heliograph.log").read_text().count("heliograph.tests.log") == 2
    output.set_level("critical")
    _LOGGER.error("too little now")
    assert capsys.readouterr().err == ""
    assert not _LOGGER.isEnabledFor(logging.ERROR), "what no place wants costs nothing"


def test_a_file_is_rotated_by_size_and_old_ones_are_deleted(output: LogOutput, tmp_path: Path) -> None:
    path = file_of(output, tmp_path, replace(_FILE, rotation_size=1024, rotation_count=3))
    for number in range(100):
        _LOGGER.info("entry %d %s", number, "x" * 50)
    files = sorted(path.parent.iterdir())
    assert [file.name for file in files] == ["node.log", "node.log.1", "node.log.2"]
    assert all(file.stat().st_size <= 1024 for file in files)
    assert "entry 99 " in path.read_text()
    told = [line.split()[5] for file in reversed(files) for line in file.read_text().splitlines()]
    assert told == [str(number) for number in range(100 - len(told), 100)], "a rotation loses nothing"


def test_a_file_that_another_program_renames_is_begun_anew(output: LogOutput, tmp_path: Path) -> None:
    path = file_of(output, tmp_path)
    _LOGGER.info("before")
    path.rename(path.with_name("moved"))
    output.tick()
    _LOGGER.info("after")
    assert path.read_text().endswith("after\n")
    assert "before" not in path.read_text()


def test_a_full_disk_loses_lines_and_nothing_else(output: LogOutput, tmp_path: Path) -> None:
    settings = LogConfig(LogTargetConfig(enable=False), LogFileConfig(enable=True, path="/dev/full"))
    output.use(open_targets(settings, tmp_path))
    for _ in range(3):
        _LOGGER.info("lost")
    assert output.lost_count == 3
    assert output.fault == "/dev/full cannot be written: No space left on device"
    file_of(output, tmp_path)
    _LOGGER.info("kept")
    assert (output.lost_count, output.fault) == (3, "")


def test_an_entry_whose_values_do_not_fit_is_lost_alone(output: LogOutput, tmp_path: Path) -> None:
    path = file_of(output, tmp_path)
    output.handle(logging.makeLogRecord({"name": "x", "levelno": logging.INFO, "msg": "%d", "args": ("no number",)}))
    _LOGGER.info("next")
    assert (output.lost_count, path.read_text().count("\n")) == (1, 1)


def test_a_file_that_cannot_be_opened_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    settings = LogConfig(LogTargetConfig(), LogFileConfig(enable=True, path="file/node.log"))
    with pytest.raises(LogFileError, match=r"log\.file\.path: .*file/node\.log cannot be opened: "):
        open_targets(settings, tmp_path)


def test_the_log_of_a_program_beside_the_node_is_put_aside_while_it_runs(tmp_path: Path) -> None:
    file = tmp_path / "sources.log"
    program = """
import logging, sys
from pathlib import Path
from heliograph.observe.side_log import log_to_stderr
log_to_stderr(Path(sys.argv[1]), 1000)
for number in range(30):
    logging.info("%d %s", number, "x" * 100)
print("last", flush=True)
"""
    with file.open("ab") as log:
        subprocess.run([sys.executable, "-c", program, str(file)], stdout=log, stderr=log, check=True)
    before, now = (tmp_path / "sources.log.1").read_text(), file.read_text()
    assert (len(before) < 1300, len(now) < 1300, now.endswith("last\n")) == (True, True, True)
    number = int(before.splitlines()[-1].split()[-2])
    assert now.splitlines()[0].split()[-2] == str(number + 1)
