"""Runs pytest in a process of its own, to test what runs the tests: of our plugins it has those that a test names."""

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

_TESTS: Final = Path(__file__).parents[1]
_PYTEST: Final = (sys.executable, "-m", "pytest")


def environment() -> dict[str, str]:
    """The environment of a pytest that finds our plugins and loads none by itself, as some take a second."""
    return {**os.environ, "PYTHONPATH": str(_TESTS), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}


def with_plugins(*plugins: str) -> list[str]:
    """Arguments that load plugins, as `support.workers`, and keep no cache."""
    return [argument for plugin in (*plugins, "no:cacheprovider") for argument in ("-p", plugin)]


def run_pytest(
    folder: Path,
    files: Mapping[str, str],
    *arguments: str,
    program: tuple[str, ...] = _PYTEST,
    settings: str = "",
) -> "subprocess.CompletedProcess[str]":
    """Run files of tests; the test that calls it has the limit.

    Args:
        folder: Where they are put, and the working directory.
        files: The text of each by its name, without `test_` and `.py`.
        arguments: Pytest's.
        program: What runs them.
        settings: Lines of `pytest.ini`.
    """
    for name, text in files.items():
        (folder / f"test_{name}.py").write_text(text)
    (folder / "pytest.ini").write_text(f"[pytest]\n{settings}")
    command = [*program, *arguments, "."]
    return subprocess.run(command, cwd=folder, env=environment(), capture_output=True, text=True, check=False)


def numbered(*sources: str) -> dict[str, str]:
    """Files that are called by their numbers, from 0."""
    return {str(number): source for number, source in enumerate(sources)}
