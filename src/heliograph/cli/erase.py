"""`heliograph erase`: erases what a stopped node keeps of a client, of a topic filter, or of before a time."""

import argparse
import json
import os
import sys
import time
from dataclasses import asdict
from pathlib import Path

from heliograph.cli.data_dir import run_in_data_dir, run_with_config
from heliograph.cli.output import counted
from heliograph.cli.usage import Actions, add_node_options
from heliograph.config.settings import Config
from heliograph.node.erasure.signed_record import InvalidRecordError, is_about, verified
from heliograph.settings.units import parse_duration
from heliograph.storage.erasure.subject import ErasureSubject
from heliograph.storage.errors import InvalidFilterError
from heliograph.storage.topic_filter import TopicFilter


def add_parser(subparsers: Actions) -> None:
    """Add `erase` to the command line."""
    parser = subparsers.add_parser(
        "erase",
        help="erase what is stored of a client or a topic",
        description="Erase what a stopped node keeps of a client, of a topic filter, or of before a time: messages, "
        "here and offloaded, retained and delayed messages, sessions, recorded ways, arguments in the audit log, dead "
        "letters. Without `--yes` it only says what would be erased; the node may run then. `erase verify RECORD` "
        "checks the signed record of an erasure.",
        epilog="Exit code 0: all was erased or planned, or the record is genuine; 1: it failed, or the record is not.",
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
    print(f"record: {found.record}" if args.yes else "Nothing was changed. Stop the node and add --yes to erase.")
    return 0


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
