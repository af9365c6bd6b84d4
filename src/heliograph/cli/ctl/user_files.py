"""`ctl users import` and `export`: a file is read, checked and hashed here, and the node only keeps its users."""

import argparse
import json
import os
from typing import Any

from heliograph.access.users.files import UserFileError
from heliograph.cli.usage import UsageError
from heliograph.config.passwords import PasswordHashAlgorithm
from heliograph.control.proto_v1 import users as proto
from heliograph.control.user_files import UserFile, algorithm_of
from heliograph.rpc.client import RpcClient


def import_users(node: RpcClient, args: argparse.Namespace) -> tuple[proto.UsersTarget, proto.UsersImported]:
    """Send the users of a file to a node, after all of it was checked.

    Raises:
        UsageError: The file cannot be used; the node got nothing of it.
        RpcError: The node refuses them.
    """
    try:
        text = args.file.read_bytes()
    except OSError as error:
        raise UsageError(f"{args.file} cannot be read: {error.strerror}") from None
    form = args.format or args.file.suffix.removeprefix(".")
    file = UserFile(text, form, args.type)
    added = overwritten = disconnected = 0
    try:
        file.check(PasswordHashAlgorithm())
        target = node.ask(proto.USERS_PREPARE(proto.UsersOf(args.listener, args.mechanism)))
        file.check(algorithm_of(target))  # some take shorter passwords
        for part in file.parts(target):
            done = node.ask(proto.USERS_IMPORT(proto.UsersImport(target.chain, args.mechanism, part)))
            added, overwritten = added + done.added, overwritten + done.overwritten
            disconnected += done.disconnected
    except UserFileError as error:
        raise UsageError(f"[{error.code}] {args.file}: {error}") from None
    return target, proto.UsersImported(added, overwritten, disconnected)


def export_users(node: RpcClient, args: argparse.Namespace) -> int:
    """Write all users of an authenticator to a new file that only its owner can read; how many.

    Raises:
        UsageError: The file exists, cannot be written, or its form cannot hold some user.
        RpcError: The node refuses.
    """
    form = args.format or args.file.suffix.removeprefix(".")
    if form not in ("csv", "json"):
        raise UsageError(f"files of users end in .csv or .json, and {args.file} does not: give --format")
    target = node.ask(proto.USERS_TARGET(proto.UsersOf(args.listener, args.mechanism)))
    if target.digest:
        raise UsageError(f"users of {target.authenticator} cannot be exported")
    wanted = proto.UsersWanted(args.listener, args.mechanism)
    rows = [_row(user, target) for user in node.rows(proto.USERS_EXPORT(wanted))]
    text = json.dumps(rows, indent=1, ensure_ascii=False) if form == "json" else _csv(rows)
    try:
        with os.fdopen(os.open(args.file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as out:
            out.write(text + "\n")
    except OSError as error:
        raise UsageError(f"{args.file} cannot be written: {error.strerror}") from None
    return len(rows)


def _row(user: proto.UserData, target: proto.UsersTarget) -> dict[str, Any]:
    """A user as `users import --type hash` reads it."""
    try:
        row: dict[str, Any] = {"user_id": user.user_id, "password_hash": user.password_hash.decode()}
    except UnicodeDecodeError:
        raise UsageError(f"the password of {user.user_id!r} is no text, and no file can hold it") from None
    try:
        row["salt"] = user.salt.decode()
    except UnicodeDecodeError:
        row["salt_hex"] = user.salt.hex()
    row["is_superuser"] = user.is_superuser
    if user.algorithm is not None and user.algorithm != target.algorithm:
        names = ("name", "salt_position", "mac_fun", "iterations", "dk_length")
        chosen = zip(names, user.algorithm, strict=True)
        row["password_hash_algorithm"] = {name: value for name, value in chosen if value is not None}
    return row


def _csv(rows: list[dict[str, Any]]) -> str:
    """The rows as lines; a user that no line can hold is refused.

    Raises:
        UsageError: It is named.
    """
    names = ["user_id", "password_hash", "salt", "is_superuser"]
    if not any(row.get("salt", "-") for row in rows):
        names.remove("salt")
    lines = [",".join(names)]
    for row in rows:
        rights = "true" if row["is_superuser"] else "false"
        fields = [rights if name == "is_superuser" else row.get(name, "") for name in names]
        is_other = "password_hash_algorithm" in row or "salt_hex" in row
        if is_other or not all(fields) or any(set(field) & set(", \r\n") for field in fields):
            raise UsageError(f"user {row['user_id']!r} cannot stand in a .csv file; a .json file holds it")
        lines.append(",".join(fields))
    return "\n".join(lines)
