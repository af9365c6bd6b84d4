"""`ctl users`: the users of a node's built-in database, who log in with a password."""

import argparse
from pathlib import Path
from typing import Final

from heliograph.cli.ctl.asking import add_command, add_group, answer_of, asked, print_list
from heliograph.cli.ctl.printing import TableColumn, print_done, print_json, print_rows, text_of
from heliograph.cli.output import counted
from heliograph.cli.usage import Actions, UsageError
from heliograph.control.proto_v1 import users as proto

_PASSWORD_HELP: Final = (
    "The password is asked for on the terminal, or read with --password-stdin or --password-file: on the command line "
    "others could see it."
)
_COLUMNS: Final = ("user_id", TableColumn("superuser", lambda row: row.is_superuser))


def add_parser(actions: Actions) -> None:
    """Add `users` and its commands."""
    group = add_group(
        actions,
        "users",
        "add, change, list, import and export users who log in with a password",
        "Users of the authenticators password_based:built_in_database and scram:built_in_database. The first `add` or "
        "`import` on a node that has neither adds password_based:built_in_database to its configuration; from then on "
        "clients need a user name and a password.",
        "heliograph ctl users add ann --superuser",
    )
    _add_list(group)
    show = add_command(group, _show, "show", "show a user", "heliograph ctl users show ann")
    add = add_command(
        group,
        _add,
        "add",
        "add a user",
        "heliograph ctl users add ann",
        "heliograph ctl users add sensor-17 --password-file /run/secrets/sensor-17",
        description=f"Add a user. {_PASSWORD_HELP} When this ends, the user is on the node's disk.",
    )
    add.add_argument("--superuser", action="store_true", help="access rules do not hold for it")
    change = add_command(
        group,
        _set,
        "set",
        "change a user's password or rights",
        "heliograph ctl users set ann",
        "heliograph ctl users set ann --no-superuser",
        description=f"Change a user. {_PASSWORD_HELP} With --superuser or --no-superuser alone the password stays.",
    )
    change.add_argument(
        "--superuser", action=argparse.BooleanOptionalAction, default=None, help="access rules do not hold for it"
    )
    for parser in (add, change):
        source = parser.add_mutually_exclusive_group()
        source.add_argument("--password-stdin", action="store_true", help="read it from standard input, first line")
        source.add_argument("--password-file", type=Path, metavar="FILE", help="file whose first line is the password")
    delete = add_command(group, _delete, "delete", "delete a user", "heliograph ctl users delete ann")
    for parser in (show, add, change, delete):
        parser.add_argument("user_id", metavar="USER", help="the user name, or client id where users are known by that")
        _add_target(parser)
    _add_files(group)


def _add_list(group: Actions) -> None:
    listing = add_command(
        group, _list, "list", "list users", "heliograph ctl users list --like sensor- --limit 100 --after sensor-0999"
    )
    listing.add_argument("--like", metavar="TEXT", default="", help="with this in their id")
    listing.add_argument(
        "--superuser", action=argparse.BooleanOptionalAction, default=None, help="superusers only, or all others"
    )
    listing.add_argument("--limit", metavar="N", type=int, default=0, help="at most so many")
    listing.add_argument(
        "--after", metavar="USER", default="", help="those behind this one: the last of the page before"
    )
    _add_target(listing)


def _add_files(group: Actions) -> None:
    importing = add_command(
        group,
        _import,
        "import",
        "add the users of a file",
        "heliograph ctl users import users.csv",
        "heliograph ctl users import /etc/mosquitto/passwd --format mosquitto",
    )
    importing.add_argument("file", type=Path, metavar="FILE", help="the file")
    importing.add_argument("--format", choices=("csv", "json", "mosquitto"), help="default: by its extension")
    importing.add_argument("--type", choices=("plain", "hash"), default="plain", help="passwords (default) or hashes")
    exporting = add_command(
        group, _export, "export", "write users with their hashes to a file", "heliograph ctl users export users.json"
    )
    exporting.add_argument("file", type=Path, metavar="FILE", help="the file, which must not exist yet")
    exporting.add_argument("--format", choices=("csv", "json"), help="default: by its extension")
    for parser in (importing, exporting):
        _add_target(parser)


def _add_target(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--listener",
        metavar="KIND:NAME",
        default="",
        help="users of a listener that has authenticators of its own, as tcp:default; default: of all others",
    )
    parser.add_argument(
        "--mechanism", choices=("password_based", "scram"), default="", help="which users, where there are both kinds"
    )


def _list(args: argparse.Namespace) -> int:
    """List users in the order of their ids."""
    if args.limit < 0:
        raise UsageError(f"--limit is {args.limit}; 0 or more is valid")
    wanted = proto.UsersWanted(args.listener, args.mechanism, args.like, args.superuser, args.after, args.limit)
    return print_list(args, proto.USERS_LIST(wanted), _COLUMNS)


def _show(args: argparse.Namespace) -> int:
    """Show a user."""
    user = answer_of(args, proto.USERS_SHOW(proto.UserName(args.listener, args.mechanism, args.user_id)))
    print_rows([user], _COLUMNS, args.json)
    return 0


def _add(args: argparse.Namespace) -> int:
    from heliograph.cli.ctl.user_passwords import read_password

    password = read_password(args)
    wanted = proto.NewUser(args.listener, args.mechanism, args.user_id, password, args.superuser)
    done = answer_of(args, proto.USERS_ADD(wanted))
    if args.json:
        print_json(done)
        return 0
    if done.made_in is not None:
        tell_made(done.authenticator, done.made_in)
    print(
        f"{'superuser' if done.user.is_superuser else 'user'} {text_of(args.user_id)} is added to {done.authenticator}"
    )
    return 0


def _set(args: argparse.Namespace) -> int:
    from heliograph.cli.ctl.user_passwords import read_password

    rights_only = args.superuser is not None and not args.password_stdin and args.password_file is None
    password = None if rights_only else read_password(args)
    wanted = proto.UserChange(args.listener, args.mechanism, args.user_id, password, args.superuser)
    done = answer_of(args, proto.USERS_SET(wanted))
    return print_done(done, f"user {text_of(args.user_id)} is changed{_ended(done.disconnected)}", args.json)


def _delete(args: argparse.Namespace) -> int:
    """Delete a user."""
    wanted = proto.UserName(args.listener, args.mechanism, args.user_id)
    done = answer_of(args, proto.USERS_DELETE(wanted))
    return print_done(done, f"user {text_of(args.user_id)} is deleted{_ended(done.disconnected)}", args.json)


def _import(args: argparse.Namespace) -> int:
    """Add the users of a file, or change those that are there. A file with a mistake is refused as a whole, and the
    mistake named. CSV: the first line names the columns user_id, password (with --type hash: password_hash, salt) and
    is_superuser; JSON: a list of objects with these keys; mosquitto: what mosquitto_passwd writes.
    """
    from heliograph.cli.ctl.user_files import import_users

    with asked(args) as node:
        target, done = import_users(node, args)
    if args.json:
        print_json(done)
        return 0
    if target.made_in is not None:
        tell_made(target.authenticator, target.made_in)
    print(
        f"{args.file} is imported to {target.authenticator}: {counted(done.added, 'user is', 'users are')} new, "
        f"{done.overwritten:,} overwritten{_ended(done.disconnected)}"
    )
    return 0


def _export(args: argparse.Namespace) -> int:
    """Write users to a file that `users import --type hash` reads. It holds the hashes of passwords: keep it safe."""
    from heliograph.cli.ctl.user_files import export_users

    with asked(args) as node:
        count = export_users(node, args)
    print(f"{args.file} has {counted(count, 'user')} now, with the hashes of their passwords")
    return 0


def tell_made(authenticator: str, revision: int) -> None:
    """Say that the first user has changed who may connect."""
    print(
        f"there was no authenticator with users: {authenticator} is now in the setting `authentication` (revision "
        f"{revision}), and clients need a user name and a password from now on"
    )


def _ended(count: int) -> str:
    return f"; {count} of its connections ended" if count else ""
