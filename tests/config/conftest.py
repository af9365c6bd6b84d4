"""Fixtures for configuration files."""

from pathlib import Path

import pytest

from config.writing import Write


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Write `node.conf` and get its path."""

    def write_file(text: str) -> Path:
        path = tmp_path / "node.conf"
        path.write_text(text, encoding="utf-8")
        return path

    return write_file
