"""Where `ctl users` has passwords from: the terminal, standard input or a file, and never the command line."""

import argparse
import getpass
import sys

from heliograph.cli.usage import UsageError


def read_password(args: argparse.Namespace) -> bytes:
    """The password that the options name; asked for twice on a terminal.

    Raises:
        UsageError: There is none.
    """
    if args.password_file is not None:
        try:
            return _first_line(args.password_file.read_bytes(), str(args.password_file))
        except OSError as error:
            raise UsageError(f"the password file {args.password_file} cannot be read: {error.strerror}") from None
    if args.password_stdin:
        return _first_line(sys.stdin.buffer.readline(), "standard input")
    if not sys.stdin.isatty():
        raise UsageError("there is no terminal to ask for a password: give --password-stdin or --password-file FILE")
    password = getpass.getpass(f"Password of {args.user_id}: ")
    if not password:
        raise UsageError("the password is empty")
    if getpass.getpass("Again: ") != password:
        raise UsageError("the two passwords differ; nothing is changed")
    return password.encode("utf-8", "surrogateescape")


def _first_line(data: bytes, where: str) -> bytes:
    line = data.split(b"\n", 1)[0].removesuffix(b"\r")
    if not line:
        raise UsageError(f"there is no password in the first line of {where}")
    return line
