"""The page about actions begins with a webhook in one minute: its blocks, on other ports, do what the page says."""

import os
import shlex
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

from support.ports import held_port
from support.waiting import wait_until

_PAGE = (Path(__file__).parents[2] / "docs" / "actions.md").read_text(encoding="utf-8")
_SECTION = _PAGE.split("## A webhook in one minute\n")[1].split("\n## ")[0]
_PYTHON, _HOCON, _COMMANDS, _PRINTED = (block.partition("\n")[2] for block in _SECTION.split("```")[1::2])


def test_the_webhook_of_the_page_works_without_java_and_spark(tmp_path: Path) -> None:
    stack = ExitStack()
    web, mqtt = held_port(stack), held_port(stack)
    (tmp_path / "receiver.py").write_text(_PYTHON.replace("8000", str(web)))
    (tmp_path / "node.conf").write_text(_HOCON.replace("8000", str(web)))
    absent = tmp_path / "absent"
    absent.mkdir()
    (absent / "sitecustomize.py").write_text("import sys\nsys.modules['pyspark'] = None\n")
    environment = {
        **{name: value for name, value in os.environ.items() if name != "JAVA_HOME"},
        "PATH": str(absent),
        "PYTHONPATH": f"{absent}{os.pathsep}{os.environ.get('PYTHONPATH', '')}",
        "HELIOGRAPH_LISTENERS__TCP__DEFAULT__BIND": f"127.0.0.1:{mqtt}",
        "HELIOGRAPH_DURABLE_STORAGE__FLIGHT__BIND": "127.0.0.1:0",
    }
    receive, start, publish = (_words(line, mqtt) for line in _COMMANDS.strip().splitlines())

    def begin(words: list[str]) -> subprocess.Popen[str]:
        pipe = subprocess.PIPE
        process = subprocess.Popen(words, cwd=tmp_path, env=environment, stdout=pipe, stderr=pipe, text=True)
        stack.callback(process.communicate, timeout=60)
        stack.callback(process.terminate)
        return process

    with stack:
        receiver = begin(receive)
        node = begin(start)

        def has_published() -> bool:
            assert node.poll() is None, node.communicate()
            done = subprocess.run(publish, cwd=tmp_path, env=environment, capture_output=True, timeout=60, check=False)
            return done.returncode == 0

        wait_until(has_published, "the node takes the message", deadline_s=60)
        assert receiver.stdout is not None
        assert receiver.stdout.readline() == _PRINTED
        for words in ("connectors test http:here", "actions test http:tell"):  # which need no Spark either
            ctl = [sys.executable, "-m", "heliograph.cli.main", "ctl", *words.split()]
            tested = subprocess.run(ctl, cwd=tmp_path, env=environment, capture_output=True, timeout=60, check=False)
            assert (tested.returncode, tested.stderr) == (0, b"")


def _words(line: str, mqtt: int) -> list[str]:
    """A command of the page for this interpreter and port."""
    program, *words = shlex.split(line)
    if program == "python3":
        return [sys.executable, *words]
    assert program == "heliograph"
    more = ["-p", str(mqtt)] if words[0] == "publish" else []
    return [sys.executable, "-m", "heliograph.cli.main", *words, *more]
