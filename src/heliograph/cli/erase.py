"""`heliograph erase`: erases what a node keeps of a client, of a topic filter, or of before a time.

A running node is asked to erase what it can; of a stopped one the files are erased here.
"""

import argparse
import json
import os
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import Final

import msgspec

from heliograph.cli.ctl.asking import asked
from heliograph.cli.data_dir import run_in_data_dir, run_with_config
from heliograph.cli.output import counted
from heliograph.cli.usage import Actions, add_node_options
from heliograph.config.settings import Config
from heliograph.control.proto_v1.erasure import DATA_ERASE, ErasureMade, ErasureWanted
from heliograph.node.erasure.signed_record import InvalidRecordError, is_about, verified
from heliograph.rpc.conversation import UnreachableError
from heliograph.rpc.methods import RpcError
from heliograph.rpc.socket_path import CONTROL_SOCKET
from heliograph.settings.units import parse_duration
from heliograph.storage.erasure.subject import ErasureSubject
from heliograph.storage.errors import InvalidFilterError
from heliograph.storage.topic_filter import TopicFilter

_IS_LEFT: Final = 3


def add_parser(subparsers: Actions) -> None:
    """Add `erase` to the command line."""
    parser = subparsers.add_parser(
        "erase",
        help="erase what is stored of a client or a topic",
        description="Erase what a node keeps of a client, of a topic filter, or of before a time: messages, here and "
        "offloaded, retained and delayed messages, sessions, recorded ways, arguments in the audit log, dead letters. "
        "A running node erases messages that are not offloaded, retained and delayed ones and the session of a client "
        "that is not connected, and says what is left for when it is stopped. Without `--yes` it only says what would "
        "be erased. `erase verify RECORD` checks the signed record of an erasure.",
        epilog="Exit code 0: all was erased or planned, or the record is genuine; 1: it failed, or the record is not; "
        "3: a running node erased what it could, and the rest is left until it is stopped.",
    )
    parser.add_argument("verify", nargs="?", choices=["verify"], help="check a record instead of erasing")
    parser.add_argument("record", nargs="?", type=Path, metavar="RECORD", help="the record to check")
    subject = parser.add_mutually_exclusive_group()
    subject.add_argument("--client", metavar="ID", help="what the client with this id published, and its session")
    subject.add_argument("--topic", metavar="FILTER", help="messages whose topic matches")
    subject.add_argument("--older-than", metavar="AGE", type=_age, help="what is older, such as 30d or 12h")
    parser.add_argument(
        "--output", metavar="DIR", type=Path, action="append", default=[], help="dead letters of a pipeline elsewhere"
    )
    parser.add_argument("--yes", "--confirm", action="store_true", help="erase; without it nothing is changed")
    add_node_options(parser)
    parser.set_defaults(usage_error=parser.error)


def run(args: argparse.Namespace) -> int:
    """Erase, plan or verify; the exit code."""
    try:
        subject = _subject(args)
    except InvalidFilterError as error:
        args.usage_error(f"--topic: {error.problem}")
    if args.verify is not None:
        if args.record is None:
            args.usage_error("verify needs the file of a RECORD")
        return run_in_data_dir(args, lambda data_dir: _verify(args, data_dir, subject))
    if subject is None:
        args.usage_error("one of --client, --topic and --older-than is needed")
        return 2
    return run_with_config(args, lambda config: _erase(args, config, subject))


def _age(text: str) -> float:
    try:
        return parse_duration(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text!r}: {error}") from None


def _subject(args: argparse.Namespace) -> ErasureSubject | None:
    if args.client is not None:
        return ErasureSubject(clientid=args.client)
    if args.topic is not None:
        return ErasureSubject(topics=TopicFilter(args.topic))
    if args.older_than is not None:
        return ErasureSubject(before_us=time.time_ns() // 1000 - int(args.older_than * 1_000_000))
    return None


def _erase(args: argparse.Namespace, config: Config, subject: ErasureSubject) -> int:
    from heliograph.node.erasure.erasing import erase  # needs pyarrow, as only this does

    if args.yes and (Path(config.node.data_dir) / CONTROL_SOCKET).exists():
        code = _ask(args, subject)
        if code is not None:
            return code
    os.umask(0o077)  # as the node has it
    storage = config.durable_storage
    targets = {name: one.offload.place for name, one in {"messages": storage.messages, **storage.databases}.items()}
    found = erase(Path(config.node.data_dir), subject, args.output, targets, is_tried=not args.yes)
    if args.json:
        print(json.dumps({**asdict(found), "is_tried": not args.yes}, indent=2))
        return 0
    print("erased:" if args.yes else "would be erased:")
    for name, count in found.messages.items():
        print(f"  {counted(count, 'message')} of database {name}")
    if found.offloaded_files:
        print(f"    of them {found.offloaded_messages:,} in {found.offloaded_files:,} offloaded files")
    for name, count in found.records.items():
        print(f"  {counted(count, 'record')} of database {name}")
    print(f"  the arguments of {counted(found.audit_lines, 'line')} of the audit log")
    print(f"  {found.dead_letters:,} dead letters")
    print("stays:")
    for text in found.stays:
        print(f"  {text}")
    for text, count in found.naming_records.items():
        print(f"  {text}: {counted(count, 'record')}")
    for file in found.still_named:
        print(f"  the file {file} still has {subject.name!r} in it")
    print(f"record: {found.record}" if args.yes else "Nothing was changed. Add --yes to erase.")
    return 0


def _ask(args: argparse.Namespace, subject: ErasureSubject) -> int | None:
    """Ask the running node to erase; the exit code, or None where no node answers."""
    topic = None if subject.topics is None else subject.topics.text
    is_running = False
    try:
        with asked(args) as node:
            is_running = True
            if args.output:
                args.usage_error("--output needs a stopped node: a running one leaves all dead letters alone")
            made = node.ask(DATA_ERASE(ErasureWanted(subject.clientid, topic, subject.before_us)))
    except UnreachableError as error:
        if not is_running:
            return None
        print(f"heliograph: [ctl_unreachable] {error}. Start the node and run the same again", file=sys.stderr)
        return 1
    except RpcError as error:
        print(f"heliograph: [{error.code}] {error.message}", file=sys.stderr)
        return 1
    if args.json:
        print(json.dumps({**msgspec.to_builtins(made), "left": made.left}, indent=2))
    else:
        _print_made(made, subject)
    return _IS_LEFT if made.left else 0


def _print_made(made: ErasureMade, subject: ErasureSubject) -> None:
    print("erased:")
    for name, count in made.messages.items():
        print(f"  {counted(count, 'message')} of database {name}")
    for name, count in made.records.items():
        print(f"  {counted(count, 'record')} of {name}")
    if made.left:
        print("left until the node is stopped and this is run again:")
        left = {f"database {name}": count for name, count in (*made.left_messages.items(), *made.left_records.items())}
        left |= {"the audit log": made.left_audit_lines, "dead letters": made.left_dead_letters}
        for text, count in left.items():
            print(f"  {count:,} of {text}" if count else "", end="\n" if count else "")
        if made.left_offloaded:
            print(f"    of them {counted(made.left_offloaded, 'message')} in offloaded files")
    print("stays:")
    for text in made.stays:
        print(f"  {text}")
    for file in made.still_named:
        print(f"  the file {file} still has {subject.name!r} in it")
    print(f"record: {made.record}")


def _verify(args: argparse.Namespace, data_dir: Path, subject: ErasureSubject | None) -> int:
    try:
        record = verified(data_dir, args.record)
    except InvalidRecordError as error:
        print(f"heliograph: {error}", file=sys.stderr)
        return 1
    if subject is not None and not is_about(record, subject):
        print(f"heliograph: {args.record} is genuine, and not about that {subject.kind}", file=sys.stderr)
        return 1
    if args.json:
        print(json.dumps(record, indent=2))
    else:
        print(f"genuine: a {record['kind']} was erased at {record['at']} by {record['by']}")
    return 0
