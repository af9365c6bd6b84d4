"""`ctl api_keys`: the keys with which programs call the HTTP API."""

import argparse
import time
from typing import Final

from heliograph.cli.ctl.asking import add_command, add_group, answer_of, print_list
from heliograph.cli.ctl.printing import TableColumn, print_done, print_json, text_of
from heliograph.cli.ctl.times import time_of
from heliograph.cli.usage import Actions, UsageError
from heliograph.control.proto_v1 import people as proto

_ROLES: Final = ("administrator", "operator", "viewer", "publisher")
_SECOND_US: Final = 1_000_000


def add_parser(actions: Actions) -> None:
    """Add `api_keys` and its commands."""
    group = add_group(
        actions,
        "api_keys",
        "add, change, list and delete keys of the HTTP API",
        "API keys: a program sends one with its secret as HTTP Basic. The secret is shown once, when the key is added. "
        "Those of api_key.bootstrap_file are listed too.",
        "heliograph ctl api_keys add exporter --role viewer",
    )
    add_command(group, _list, "list", "list keys")
    add = add_command(group, _add, "add", "add a key", "heliograph ctl api_keys add exporter --role viewer --for 90d")
    change = add_command(group, _set, "set", "change a key", "heliograph ctl api_keys set exporter --disable")
    switch = change.add_mutually_exclusive_group()
    switch.add_argument("--enable", action="store_true", default=None, help="have it count")
    switch.add_argument("--disable", dest="enable", action="store_false", help="have it refused")
    change.set_defaults(enable=None)
    for parser in (add, change):
        parser.add_argument("name", metavar="NAME", help="a letter, then letters, digits, hyphens and underscores")
        parser.add_argument("--description", metavar="TEXT", help="what it is for")
        parser.add_argument(
            "--for", dest="for_s", metavar="DURATION", help="until when, from now on, as 90d; or forever"
        )
    add.add_argument("--role", choices=_ROLES, default="administrator", help="what it may do; default: administrator")
    change.add_argument("--role", choices=_ROLES, help="what it may do")
    delete = add_command(group, _delete, "del", "delete a key", "heliograph ctl api_keys del exporter", alias="delete")
    delete.add_argument("name", metavar="NAME", help="the key")


def _list(args: argparse.Namespace) -> int:
    """List keys, without secrets."""
    columns = (
        "name",
        "api_key",
        "role",
        TableColumn("state", _state),
        TableColumn("expires", lambda row: time_of(row.expires * _SECOND_US) if row.expires else "never"),
        "description",
    )
    return print_list(args, proto.PEOPLE_KEYS(), columns)


def _add(args: argparse.Namespace) -> int:
    """Add a key, and print it with its secret."""
    from heliograph.access.people.api_keys import api_key_of, new_secret, secret_hash_of

    secret = new_secret()
    wanted = proto.NewApiKey(
        args.name,
        api_key_of(args.name),
        secret_hash_of(secret),
        args.role,
        args.description or "",
        expires=_expires(args.for_s) or None,
    )
    row = answer_of(args, proto.PEOPLE_KEY_ADD(wanted))
    if args.json:
        print_json({"key": row, "secret": secret})
        return 0
    print(f"{row.role} {text_of(row.name)} is added; the secret is not shown again")
    print(f"key     {row.api_key}\nsecret  {secret}")
    return 0


def _set(args: argparse.Namespace) -> int:
    """Change a key; its secret stays."""
    if args.role is args.description is args.enable is args.for_s is None:
        raise UsageError("nothing is to be changed: give --role, --description, --for, --enable or --disable")
    wanted = proto.ApiKeyChange(args.name, args.role, args.description, args.enable, _expires(args.for_s))
    row = answer_of(args, proto.PEOPLE_KEY_SET(wanted))
    return print_done(row, f"{text_of(row.name)} is changed; it is {_state(row)}", args.json)


def _delete(args: argparse.Namespace) -> int:
    """Delete a key."""
    row = answer_of(args, proto.PEOPLE_KEY_DELETE(proto.ApiKeyName(args.name)))
    return print_done(row, f"{text_of(row.name)} is deleted", args.json)


def _state(row: proto.ApiKeyRow) -> str:
    return "disabled" if not row.enable else "expired" if row.expired else "enabled"


def _expires(text: str | None) -> int | None:
    """When it ends, in seconds since the epoch; 0 for never, None for nothing said."""
    from heliograph.settings.units import parse_duration

    if text is None or text == "forever":
        return None if text is None else 0
    try:
        seconds = int(parse_duration(text))
    except ValueError:
        raise UsageError(f"--for {text!r} is no duration such as 12h or 90d, nor `forever`") from None
    if seconds <= 0:
        raise UsageError(f"--for {text!r} is shorter than a second")
    return int(time.time()) + seconds
