"""The programs that measure durability, with counts that measure nothing: they run, and everything arrives."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
@pytest.mark.service
def test_what_was_missed_is_read_back_once(tmp_path: Path) -> None:
    found = tmp_path / "findings.json"
    cases = ["replay", "sparse", "restart", "disk"]
    options = ["--divisor", "2000", "--runs", "1", "--seconds", "0.1", "--json", str(found)]
    command = [sys.executable, "benchmarks/durable.py", "--only", *cases, *options]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    findings = {finding["title"]: finding["value"] for finding in json.loads(found.read_text())}
    assert findings["of these more (or, below 0, fewer) than were missed"] == 0
    assert findings["replay of 500 messages to one subscriber"] > 0
