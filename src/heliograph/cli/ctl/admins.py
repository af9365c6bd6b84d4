"""`ctl admins`: the users who log in to the HTTP API and its page to manage a node."""

import argparse
from pathlib import Path
from typing import Final

from heliograph.cli.ctl.asking import add_command, add_group, answer_of, asked, print_list
from heliograph.cli.ctl.printing import TableColumn, print_done, text_of
from heliograph.cli.ctl.times import time_of
from heliograph.cli.usage import Actions, UsageError
from heliograph.control.proto_v1 import people as proto

_ROLES: Final = ("administrator", "operator", "viewer")
_SECOND_US: Final = 1_000_000
_PASSWORD_HELP: Final = (
    "The password (8 to 64 characters, with two of letters, digits and special characters) is asked for on the "
    "terminal, or read with --password-stdin or --password-file."
)


def add_parser(actions: Actions) -> None:
    """Add `admins` and its commands."""
    group = add_group(
        actions,
        "admins",
        "add, change, list and delete users who manage the node",
        "Users who log in to the HTTP API and its page. There is none at first, and no default password: the first one "
        "is added here, or with the set-up token that the log shows while there is none. Users of MQTT clients are "
        "those of `ctl users`.",
        "heliograph ctl admins add ann",
    )
    add_command(group, _list, "list", "list users")
    add = add_command(
        group,
        _add,
        "add",
        "add a user",
        "heliograph ctl admins add ann",
        "heliograph ctl admins add bob --role viewer --password-file /run/secrets/bob",
        description=f"Add a user. {_PASSWORD_HELP}",
    )
    password = add_command(
        group,
        _passwd,
        "passwd",
        "give a user another password",
        "heliograph ctl admins passwd ann",
        description=f"Give a user another password; its logins end. {_PASSWORD_HELP}",
    )
    for parser in (add, password):
        parser.add_argument("user_id", metavar="USER", help="letters, digits and underscores")
        parser.add_argument(
            "password",
            metavar="PASSWORD",
            nargs="?",
            help="better not: other users of the machine see it in the list of processes, and shells keep it",
        )
        source = parser.add_mutually_exclusive_group()
        source.add_argument("--password-stdin", action="store_true", help="read it from standard input, first line")
        source.add_argument("--password-file", type=Path, metavar="FILE", help="file whose first line is the password")
    add.add_argument("description", metavar="DESCRIPTION", nargs="?", default="", help="who it is")
    add.add_argument("--description", dest="text", metavar="TEXT", default="", help="the same")
    add.add_argument("--role", choices=_ROLES, default="administrator", help="what it may do; default: administrator")
    change = add_command(
        group, _set, "set", "change a user's role or description", "heliograph ctl admins set bob --role operator"
    )
    change.add_argument("--role", choices=_ROLES, help="what it may do")
    change.add_argument("--description", metavar="TEXT", help="who it is")
    change.add_argument("--no-second-factor", action="store_true", help="a password is enough for the next login")
    delete = add_command(group, _delete, "del", "delete a user", "heliograph ctl admins del bob", alias="delete")
    for parser in (change, delete):
        parser.add_argument("user_id", metavar="USER", help="the user")


def _list(args: argparse.Namespace) -> int:
    """List users."""
    columns = (
        "username",
        "role",
        TableColumn("second_factor", lambda row: "yes" if row.has_second_factor else "no"),
        TableColumn("created", lambda row: time_of(row.created_at * _SECOND_US)),
        "description",
    )
    return print_list(args, proto.PEOPLE_USERS(), columns)


def _add(args: argparse.Namespace) -> int:
    wanted = proto.NewManagementUser(args.user_id, _hash(args), args.role, args.text or args.description)
    row = answer_of(args, proto.PEOPLE_USER_ADD(wanted))
    return print_done(row, f"{row.role} {text_of(row.username)} is added", args.json)


def _passwd(args: argparse.Namespace) -> int:
    with asked(args) as node:
        wanted = proto.ManagementUserChange(args.user_id, _hash(args))
        row = node.ask(proto.PEOPLE_USER_SET(wanted))
    return print_done(row, f"{text_of(row.username)} has another password; its logins have ended", args.json)


def _set(args: argparse.Namespace) -> int:
    """Change a user; its logins end. --no-second-factor is for one who has lost the device with the codes."""
    is_changed = args.role is not None or args.description is not None
    if not is_changed and not args.no_second_factor:
        raise UsageError("nothing is to be changed: give --role, --description or --no-second-factor")
    with asked(args) as node:
        if args.no_second_factor:
            plain = proto.SecondFactor(args.user_id)
            row = node.ask(proto.PEOPLE_USER_SECOND_FACTOR(plain))
        if is_changed:
            wanted = proto.ManagementUserChange(args.user_id, role=args.role, description=args.description)
            row = node.ask(proto.PEOPLE_USER_SET(wanted))
    return print_done(row, f"{text_of(row.username)} is changed; its logins have ended", args.json)


def _delete(args: argparse.Namespace) -> int:
    """Delete a user; its logins end."""
    row = answer_of(args, proto.PEOPLE_USER_DELETE(proto.ManagementUserName(args.user_id)))
    return print_done(row, f"{text_of(row.username)} is deleted", args.json)


def _hash(args: argparse.Namespace) -> str:
    """The hash of the password, which leaves this process only so."""
    from heliograph.access.people.names import PeopleError, check_username
    from heliograph.access.people.passwords import check_password, hash_of
    from heliograph.cli.ctl.user_passwords import read_password

    try:
        check_username(args.user_id)
        if args.password is not None and (args.password_stdin or args.password_file is not None):
            raise UsageError("the password is given twice: as an argument, and by an option")
        password = args.password
        if password is None:
            password = read_password(args).decode("utf-8", "surrogateescape")
        check_password(password)
    except PeopleError as error:
        raise UsageError(str(error)) from None
    return hash_of(password)
