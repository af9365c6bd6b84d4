"""`heliograph completion`: a script with which a shell completes commands and options."""

import argparse
from collections.abc import Mapping
from typing import Final

from heliograph.cli.usage import Actions, arguments_of, commands_of

_SHELLS: Final = ("bash", "zsh")


def add_parser(subparsers: Actions) -> None:
    """Add `completion` to the command line."""
    parser = subparsers.add_parser(
        "completion",
        help="print the completion script of a shell",
        description="Print a script with which bash or zsh completes the commands and options of heliograph. For bash "
        "put it into ~/.local/share/bash-completion/completions/heliograph, for zsh into a file _heliograph in a "
        "directory of $fpath.",
    )
    parser.add_argument("shell", choices=_SHELLS, help="which shell")


def run(args: argparse.Namespace) -> int:
    """Print the script."""
    import shtab

    from heliograph.cli.main import whole_parser

    parser = whole_parser()
    _complete_paths(parser, {"FILE": shtab.FILE, "DIR": shtab.DIRECTORY})
    print(shtab.complete(parser, args.shell))
    return 0


def _complete_paths(parser: argparse.ArgumentParser, kinds: Mapping[str, object]) -> None:
    """Let what is called a file or directory be completed as one, here and in the commands below."""
    for argument in arguments_of(parser):
        if isinstance(argument.metavar, str) and argument.metavar in kinds:
            setattr(argument, "complete", kinds[argument.metavar])  # noqa: B010 - where shtab looks for it
    for _, inner in commands_of(parser).values():
        _complete_paths(inner, kinds)
