"""`heliograph completion`: a script with which a shell completes commands and options."""

import argparse
from typing import Final

from heliograph.cli.usage import Actions

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

    print(shtab.complete(whole_parser(), args.shell))
    return 0
