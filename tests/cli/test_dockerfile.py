"""The Dockerfile, as far as it can be looked at without a container tool: what it copies, runs, and tells Docker."""

import json
import re
import shlex
from pathlib import Path

from heliograph.cli.main import whole_parser
from heliograph.config.contradictions import open_listener_faults
from heliograph.config.loading import load_config
from support.cases import cases

_ROOT = Path(__file__).parents[2]


def instructions() -> list[tuple[str, str]]:
    """Name and text of each instruction, with continued lines joined."""
    text = (_ROOT / "Dockerfile").read_text(encoding="utf-8")
    lines = [line for line in text.splitlines() if not line.lstrip().startswith("#")]
    joined = "\n".join(lines).replace("\\\n", " ")
    return [(line.split()[0], line.partition(" ")[2].strip()) for line in joined.splitlines() if line.strip()]


STEPS = instructions()
LAST_STAGE = STEPS[max(index for index, (name, _) in enumerate(STEPS) if name == "FROM") :]


def only(name: str) -> str:
    (text,) = [text for each, text in LAST_STAGE if each == name]
    return text


def test_what_is_copied_is_there_and_not_ignored() -> None:
    ignored = (_ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    allowed = {line.removeprefix("!") for line in ignored if line.startswith("!")}
    assert "*" in ignored
    copied = [
        word for name, text in STEPS if name == "COPY" and not text.startswith("--from") for word in text.split()[:-1]
    ]
    assert set(copied) == allowed
    assert all((_ROOT / path).exists() for path in copied)
    project = (_ROOT / "pyproject.toml").read_text(encoding="utf-8")
    for needed in re.findall(r'^(?:readme = |license-files = \[)"([^"]+)"', project, re.MULTILINE):
        assert needed in copied, f"the build reads {needed}"


def test_nothing_is_fetched_but_from_the_package_index() -> None:
    commands = " ".join(text for name, text in STEPS if name in ("RUN", "ADD"))
    assert not re.search(r"\b(apt|apt-get|apk|curl|wget|git|npm)\b|https?:", commands)
    assert all(name != "ADD" for name, _ in STEPS)
    assert [text.split()[0] for name, text in STEPS if name == "FROM"] == [
        "scratch",
        "python:${PYTHON}-bookworm",
        "python:${PYTHON}-slim-bookworm",
    ]
    assert only("COPY").startswith("--from=build ")


def test_it_runs_without_rights_of_root_and_keeps_its_data() -> None:
    names = [name for name, _ in LAST_STAGE]
    assert not only("USER").startswith(("root", "0"))
    assert names.index("USER") > max(index for index, name in enumerate(names) if name == "RUN")
    assert only("VOLUME") == only("WORKDIR") == "/var/lib/heliograph", "./data must be kept"
    assert "1883" in only("EXPOSE").split()


def test_its_commands_are_commands_of_heliograph() -> None:
    entry, command = json.loads(only("ENTRYPOINT")), json.loads(only("CMD"))
    assert entry == ["heliograph"]
    assert whole_parser().parse_args(command).command == "start"
    options, _, check = only("HEALTHCHECK").partition("CMD ")
    assert all(option.startswith("--") for option in options.split())
    words = json.loads(check)
    parsed = whole_parser().parse_args(words[1:])
    assert (words[0], parsed.command, parsed.data_dir) == ("heliograph", "ctl", None)


def test_its_base_configuration_is_valid_and_reachable_from_outside(tmp_path: Path) -> None:
    run = next(text for name, text in LAST_STAGE if name == "RUN")
    words = shlex.split(run)
    at = words.index("printf")
    base = tmp_path / "base.hocon"
    base.write_text("\n".join(words[at + 2 : words.index(">")]))
    assert words[-1] == json.loads(only("CMD"))[2]
    config = load_config(None, {}, base=base, checks=(open_listener_faults,))
    assert [type(one).__name__ for one in config.authentication] == ["BuiltInDatabaseConfig"]
    assert (config.node.data_dir, str(config.listeners.tcp["default"].bind)) == ("data", "0.0.0.0:1883")


@cases("file", ["Dockerfile", ".dockerignore"])
def test_lines_have_no_carriage_returns_or_tabs(file: str) -> None:
    text = (_ROOT / file).read_text(encoding="utf-8")
    assert "\r" not in text
    assert "\t" not in text
