"""The parser's tables are kept between runs, and nothing goes wrong when they are missing or broken."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

_CODE = """
from heliograph.hocon.document import parse_text
from heliograph.hocon.values import to_json
print(to_json(parse_text("a = [1 x]"), None))
"""


@pytest.mark.slow
def test_kept_tables_are_used_and_broken_ones_replaced(tmp_path: Path) -> None:
    environ = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    environ["PYTHONPYCACHEPREFIX"] = str(tmp_path)

    def run() -> None:
        done = subprocess.run([sys.executable, "-c", _CODE], env=environ, capture_output=True, text=True, check=True)
        assert (done.stdout, done.stderr) == ('{"a": [1, "x"]}\n', "")

    run()
    (tables,) = tmp_path.rglob("lalr*.tables")
    content = tables.read_bytes()
    run()
    assert tables.read_bytes() == content
    tables.write_bytes(content[:1000])
    run()
    assert len(tables.read_bytes()) > 1000
    environ["PYTHONDONTWRITEBYTECODE"] = "1"
    tables.unlink()
    run()
    assert not tables.exists()
