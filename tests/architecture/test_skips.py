"""A run that must have every service fails where a test of one is skipped (`support.skips`)."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
SOURCE = """
import pytest

@pytest.mark.service
def test_of_a_service():
    pytest.skip("there is no such server")

def test_of_a_unit():
    pytest.skip("not on this system")
"""


@pytest.mark.parametrize(
    ("options", "summary"), [([], "2 skipped"), (["--no-service-skips"], "1 failed, 1 skipped")], ids=["may", "must"]
)
def test_a_skipped_service_fails_the_run_that_must_have_it(tmp_path: Path, options: list[str], summary: str) -> None:
    (tmp_path / "test_it.py").write_text(SOURCE)
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers = service: x\n")
    result = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "support.skips", "-p", "no:cacheprovider", *options, str(tmp_path)],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(TESTS)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert summary in result.stdout
    assert ("there is no such server" in result.stdout) == bool(options)
