"""`heliograph conf`: what a configuration file says and may say, and whether a node can start with it."""

import argparse
import json
import os
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from heliograph.cli.batch import Answer, Case, content_of_case, contents_of_case, run_batch, texts_of_case
from heliograph.cli.start_faults import start_faults
from heliograph.cli.usage import Actions
from heliograph.config import ConfigError, known_overrides, load_config
from heliograph.config.json_schema import json_schema
from heliograph.hocon import (
    HoconError,
    MemoryFiles,
    Node,
    Scalar,
    apply_environment,
    apply_overrides,
    parse_file,
    parse_text,
    scalar_json,
    to_json,
)
from heliograph.message_policies.faults import policy_faults
from heliograph.rules.client_attrs import client_attribute_faults
from heliograph.rules.engine.faults import rule_faults
from heliograph.rules.json_text import encode_exactly
from heliograph.rules.schemas.configured import schema_faults
from heliograph.rules.values import string_of

_SECRET: Final = re.compile(
    r"(?is)(.*[_.-])?(token|password|passwd|passphrase|secret|secret[_-]?key|authorization|api[_-]?key)"
)
_HEADERS: Final = "headers"  # of requests; which of them is a secret, only the other side knows
_USERINFO: Final = re.compile(r"(?<=://)[^/?#\s]+(?=@)")
_SWITCHES: Final = ("require_token",)
_STARS: Final = "******"
_BARE_KEY: Final = re.compile(r"[A-Za-z0-9_@%|-]+")


def add_parser(subparsers: Actions) -> None:
    """Add `conf` to the command line."""
    parser = subparsers.add_parser(
        "conf",
        help="show or check a configuration file",
        description="Show what a configuration file says, check it for a node, or print what may stand in one.",
    )
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    show = actions.add_parser(
        "show",
        help="print the file as JSON",
        description=(
            "Print as JSON what the file says, with its includes read, its substitutions resolved and the HELIOGRAPH_ "
            "variables that name settings applied, and stars for passwords and tokens. Defaults are not filled in and "
            "nothing is checked. With --batch, "
            'each line of standard input is a case {"text", "files": {name: text}, "env": {name: text}}, answered with '
            '{"value"} or {"error", "line", "file"}; every HELIOGRAPH_ variable of a case applies.'
        ),
    )
    show.add_argument("file", metavar="FILE", type=Path, nargs="?")
    show.add_argument("--batch", action="store_true", help="read cases from standard input")
    show.add_argument(
        "--origins", action="store_true", help="print one value per line, each with the file and line that set it"
    )
    check = actions.add_parser(
        "check",
        help="check that a node can start with the file",
        description="Check the file and the HELIOGRAPH_ variables as `heliograph start` does, and the certificates, "
        "the data directory and the pipeline file that they name; tell every mistake.",
    )
    check.add_argument("file", metavar="FILE", type=Path)
    actions.add_parser(
        "schema",
        help="print the JSON Schema of every setting",
        description="Print the JSON Schema (2020-12) of every setting: what is valid, defaults, descriptions and how a "
        "change takes effect. For editors that complete and check configuration files, and for forms.",
    )


def run(args: argparse.Namespace) -> int:
    """Run `conf show`, `conf check` or `conf schema`; 1 if the file has a mistake."""
    try:
        if args.action == "show" and args.batch == (args.file is not None):
            print("heliograph: name a file, or give --batch and cases on standard input", file=sys.stderr)
            return 2
        if args.action == "show" and args.batch:
            return run_batch(_answer, refusal={"line": None, "file": None})
        if args.action == "check":
            checks = (schema_faults, client_attribute_faults, policy_faults, rule_faults, start_faults)
            load_config(args.file, os.environ, checks=checks)
            print(f"{args.file}: no mistakes")
        elif args.action == "schema":
            print(json.dumps(json_schema(), indent=2, ensure_ascii=False))
        else:
            _show(args.file, os.environ, origins=args.origins)
    except (HoconError, ConfigError) as error:
        print(f"heliograph: [{error.code}] {error}", file=sys.stderr)
        return 1
    return 0


def _show(file: Path, environ: Mapping[str, str], *, origins: bool) -> None:
    node = _without_secrets(apply_overrides(parse_file(file), known_overrides(environ)))
    print("\n".join(_origin_lines(node)) if origins else to_json(node))


def _without_secrets(node: Node) -> Node:
    """A document whose secrets, known by the names of their settings, are stars."""
    value = node.value
    if isinstance(value, dict):
        kept = {key: _masked(key, child) for key, child in value.items()}
        return Node(kept, node.position, node.source)
    if isinstance(value, list):
        return Node([_without_secrets(item) for item in value], node.position, node.source)
    if isinstance(value, str):
        return Node(_USERINFO.sub(_STARS, value), node.position, node.source)
    return node


def _masked(key: str, node: Node) -> Node:
    if key.lower() == _HEADERS:
        return _all_masked(node)
    if _SECRET.fullmatch(key) and key not in _SWITCHES and not isinstance(node.value, dict | list):
        return _all_masked(node)
    return _without_secrets(node)


def _all_masked(node: Node) -> Node:
    """A document with stars for every scalar that says something."""
    value = node.value
    if isinstance(value, dict):
        return Node({key: _all_masked(child) for key, child in value.items()}, node.position, node.source)
    if isinstance(value, list):
        return Node([_all_masked(item) for item in value], node.position, node.source)
    return node if value is None or value == "" else Node(_STARS, node.position, node.source)


def _answer(case: Case) -> Answer | str:
    """What a text with its files and variables says, without any schema."""
    text, environ = content_of_case(case, "text"), texts_of_case(case, "env")
    files = MemoryFiles(contents_of_case(case, "files"))
    try:
        node = apply_environment(parse_text(text, files=files), environ, files=files)
    except HoconError as error:
        return {"error": error.message, "line": error.line, "file": error.file}
    # Written here: a configuration may hold larger integers and more levels than other answers.
    return f'{{"value": {to_json(node, None, write_scalar=_scalar)}}}'


def _scalar(value: Scalar) -> str:
    """A scalar as JSON; bytes of a variable that are not UTF-8 in the form of the batch commands."""
    if isinstance(value, str) and not value.isascii():
        content = value.encode("utf-8", "surrogateescape")
        return encode_exactly(string_of(content))
    return scalar_json(value)


def _origin_lines(root: Node) -> Iterator[str]:
    """Each scalar (and empty container) as `path = value  # file:line`, in the order of the document."""
    pending: list[tuple[str, Node]] = [("", root)]
    while pending:
        path, node = pending.pop()
        children: list[tuple[str, Node]] = []
        if isinstance(node.value, dict):
            children = [(_join(path, key), child) for key, child in node.value.items()]
        elif isinstance(node.value, list):
            children = [(_join(path, str(index)), item) for index, item in enumerate(node.value, 1)]
        if children:
            pending += reversed(children)
        elif path:
            source = f" (value from {node.source})" if node.source is not None else ""
            yield f"{path} = {to_json(node, None)}  # {node.position}{source}"


def _join(path: str, key: str) -> str:
    name = key if _BARE_KEY.fullmatch(key) else json.dumps(key)
    return f"{path}.{name}" if path else name
