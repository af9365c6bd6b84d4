"""Writes a manual page for each command, made of the parsers that also make `--help`: `make docs`."""

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from heliograph import __version__
from heliograph.cli.main import whole_parser
from heliograph.cli.usage import commands_of, split_example

OUTPUT: Final = Path("build/man")


def pages() -> Iterator[tuple[str, str]]:
    """Name and text of each page: one for `heliograph`, one for each command of it."""
    root = whole_parser()
    commands = commands_of(root)
    summary = "an MQTT platform that keeps every message as a replayable stream"
    yield "heliograph.1", _page(root, summary, [f"heliograph-{name}" for name in commands], with_commands=False)
    for name, (help_text, parser) in commands.items():
        yield f"heliograph-{name}.1", _page(parser, help_text, ["heliograph"], with_commands=True)


def _page(parser: argparse.ArgumentParser, summary: str, see_also: list[str], *, with_commands: bool) -> str:
    name = parser.prog.replace(" ", "-")
    lines = [
        f'.TH {name.upper()} 1 "" "heliograph {__version__}" "Heliograph"',
        ".ad l",
        ".SH NAME",
        rf"{_text(name)} \- {_text(summary)}",
        ".SH SYNOPSIS",
        *_verbatim(_usage(parser)),
        ".SH DESCRIPTION",
        *_paragraphs(parser.description or ""),
        *_options(parser, ".SH"),
        *_epilog(parser, ".SH"),
    ]
    if with_commands:
        for _, inner in _all_below(parser):
            lines += [f".SH {_text(inner.prog)}", *_paragraphs(inner.description or ""), *_verbatim(_usage(inner))]
            lines += [*_options(inner, ".SS"), *_epilog(inner, ".SS")]
    lines += [".SH SEE ALSO", ", ".join(rf"\fB{_text(each)}\fR(1)" for each in see_also)]
    return "\n".join(lines) + "\n"


def _all_below(parser: argparse.ArgumentParser) -> Iterator[tuple[str, argparse.ArgumentParser]]:
    for name, (_, inner) in commands_of(parser).items():
        yield name, inner
        yield from _all_below(inner)


def _usage(parser: argparse.ArgumentParser) -> str:
    return parser.format_usage().removeprefix("usage: ").rstrip()


def _options(parser: argparse.ArgumentParser, head: str) -> Iterator[str]:
    """The groups of arguments, with commands by name and summary only."""
    formatter = parser._get_formatter()
    for group in parser._action_groups:
        shown = [action for action in group._group_actions if action.help is not argparse.SUPPRESS]
        if shown:
            yield f"{head} {_text((group.title or 'options').upper() if head == '.SH' else (group.title or 'options'))}"
        for action in shown:
            yield ".TP"
            yield rf"\fB{_text(formatter._format_action_invocation(action))}\fR"
            yield from _paragraphs(formatter._expand_help(action) if action.help else "")
            if isinstance(action, argparse._SubParsersAction):
                for choice in action._choices_actions:
                    yield from (".TP", rf"\fB{_text(choice.dest)}\fR", *_paragraphs(choice.help or ""))


def _epilog(parser: argparse.ArgumentParser, head: str) -> Iterator[str]:
    prose, example = split_example(parser.epilog or "")
    yield from _paragraphs(prose)
    if example:
        yield f"{head} {'EXAMPLES' if head == '.SH' else 'examples'}"
        yield from _verbatim(example.partition("\n")[2])


def _paragraphs(text: str) -> list[str]:
    """Lines of running text; a blank line begins a paragraph."""
    return [_line(line) if line.strip() else ".PP" for line in text.strip().splitlines()]


def _verbatim(text: str) -> list[str]:
    return [".nf", *(_line(line) for line in text.splitlines()), ".fi"]


def _line(text: str) -> str:
    escaped = _text(text)
    return rf"\&{escaped}" if escaped.startswith((".", "'")) else escaped


def _text(text: str) -> str:
    return text.replace("\\", r"\e").replace("-", r"\-")


def main() -> int:
    """Write all pages."""
    output = Path(sys.argv[1]) if len(sys.argv) > 1 else OUTPUT
    output.mkdir(parents=True, exist_ok=True)
    count = 0
    for name, text in pages():
        (output / name).write_text(text, encoding="utf-8")
        count += 1
    print(f"{count} manual pages in {output}: man -l {output}/heliograph-ctl.1")
    return 0


if __name__ == "__main__":
    sys.exit(main())
