"""`heliograph schema`: what the schema registry of a configuration holds, and whether data fits a schema of it."""

import argparse
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from heliograph.cli.usage import Actions, fail

if TYPE_CHECKING:
    from heliograph.rules.schemas import SchemaRegistry


def add_parser(subparsers: Actions) -> None:
    """Add `schema` to the command line."""
    parser = subparsers.add_parser(
        "schema",
        help="list schemas, and check data against them",
        description="Look at the schemas of a configuration file, and try them on data.",
    )
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    listing = actions.add_parser(
        "ls",
        help="list the schemas",
        description="Print a line for each schema: its name, its type, and the messages of a Protobuf schema.",
    )
    listing.add_argument("--config", metavar="FILE", type=Path, required=True, help="the configuration file")
    check = actions.add_parser(
        "check",
        help="check data against a schema",
        description=(
            "Decode data by a schema and print what it stands for as JSON. The exit code is 1 if it does not fit. The "
            "schema sparkplug_b is built in."
        ),
    )
    check.add_argument("--config", metavar="FILE", type=Path, help="the configuration file")
    check.add_argument("name", metavar="NAME", help="the schema")
    check.add_argument("data", metavar="FILE", help="a file with the bytes; - for standard input")
    check.add_argument("--message-type", metavar="NAME", help="the message of a Protobuf schema")


def run(args: argparse.Namespace) -> int:
    """Do what the options say; the exit code."""
    from heliograph.config.loading import load_config
    from heliograph.outbound import Outbound
    from heliograph.rules.schemas import SchemaRegistry
    from heliograph.rules.schemas.configured import registry_settings, schema_faults
    from heliograph.rules.schemas.registry import build
    from heliograph.settings.errors import ConfigError

    registry = SchemaRegistry()
    if args.config is not None:
        try:
            config = load_config(args.config, os.environ, checks=(schema_faults,))
        except ConfigError as error:
            return fail("schema", f"[{error.code}] {error}")
        registry = SchemaRegistry(build(registry_settings(config.schema_registry), Outbound(config.outbound)))
    return _list(registry) if args.action == "ls" else _check(registry, args)


def _list(registry: "SchemaRegistry") -> int:
    for name, schema in registry.all().items():
        messages = getattr(schema, "message_names", ())
        print(f"{name}  {schema.kind}" + (f"  {', '.join(messages)}" if messages else ""))
    return 0


def _check(registry: "SchemaRegistry", args: argparse.Namespace) -> int:
    from heliograph.rules.json_text import encode_exactly
    from heliograph.rules.schemas import SchemaError

    try:
        data = sys.stdin.buffer.read() if args.data == "-" else Path(args.data).read_bytes()
    except OSError as error:
        return fail("schema", f"{args.data} cannot be read: {error.strerror}")
    try:
        value = registry.get(args.name).decode(data, args.message_type)
    except SchemaError as error:
        return fail("schema", str(error))
    print(encode_exactly(value))
    return 0
