"""Every command says what it does, with an example; completion and manual pages are made of the same parsers."""

import argparse
import importlib.util
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from heliograph.cli.main import main, whole_parser
from heliograph.cli.usage import arguments_of, commands_of, split_example
from support.cases import cases

_SCRIPT = Path(__file__).parents[2] / "scripts" / "man_pages.py"


def parsers(parser: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    """A parser and all below it."""
    yield parser
    for _, inner in commands_of(parser).values():
        yield from parsers(inner)


WHOLE = whole_parser()
ALL = {parser.prog: parser for parser in parsers(WHOLE)}


@cases("command", ALL)
def test_a_command_tells_what_it_does_and_how_it_is_used(command: str) -> None:
    parser = ALL[command]
    assert parser.description, "it does not say what it does"
    assert parser.description.endswith((".", ":")) or "\n" in parser.description
    assert "\nexample" in parser.format_help(), "it shows no example"
    _, example = split_example(parser.epilog or "")
    assert command in example, "the example is another's"
    for action in arguments_of(parser):
        assert action.help or action.metavar, f"{command}: {action.dest} is not explained"


@cases("shell", ["bash", "zsh"])
def test_a_shell_reads_its_completion(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", shell]) == 0
    script = capsys.readouterr().out
    assert "--will-topic" in script
    if shutil.which(shell) is not None:
        subprocess.run([shell, "-n"], input=script, text=True, check=True)


def test_bash_completes_commands_and_options(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", "bash"]) == 0
    script = capsys.readouterr().out
    for words, expected in (("ctl clie", "clients"), ("publish --will-t", "--will-topic"), ("conf ch", "check")):
        line = f"heliograph {words}".split()
        asked = f"COMP_WORDS=({' '.join(line)}); COMP_CWORD={len(line) - 1}; _shtab_heliograph; echo ${{COMPREPLY[@]}}"
        done = subprocess.run(["bash", "-c", f"{script}\n{asked}"], capture_output=True, text=True, check=True)
        assert done.stdout.split() == [expected]
    asked = "cd /; COMP_WORDS=(heliograph conf check et); COMP_CWORD=3; _shtab_heliograph; echo ${COMPREPLY[@]}"
    done = subprocess.run(["bash", "-c", f"{script}\n{asked}"], capture_output=True, text=True, check=True)
    assert "etc" in done.stdout.split(), "files are completed where one is expected"


def test_each_command_has_a_manual_page_without_faults(tmp_path: Path) -> None:
    spec = importlib.util.spec_from_file_location("man_pages", _SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    pages = dict(module.pages())
    assert {"heliograph.1", "heliograph-ctl.1", "heliograph-publish.1"} <= pages.keys()
    page = pages["heliograph-conf.1"]
    assert page.startswith(".TH HELIOGRAPH-CONF 1 ")
    assert r"heliograph\-conf \- show, check or import a configuration file" in page
    assert ".SH heliograph conf check" in page
    for command in ALL:
        inner = command.split()[1:2]
        name = "-".join(["heliograph", *inner])
        assert command.replace("-", r"\-") in pages[f"{name}.1"].replace(r"heliograph\-", "heliograph ")
    if shutil.which("groff") is not None:
        for name, text in pages.items():
            file = tmp_path / name
            file.write_text(text)
            done = subprocess.run(
                ["groff", "-man", "-ww", "-z", "-Tutf8", str(file)], capture_output=True, text=True, check=False
            )
            assert (done.returncode, done.stderr) == (0, ""), name
