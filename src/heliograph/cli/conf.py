"""`heliograph conf`: what a configuration file says and may say, and whether a node can start with it.

`check` looks at the files and directories that a start needs, and changes nothing.
"""

import argparse
import fcntl
import importlib.util
import json
import os
import re
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from heliograph.cli.batch import Answer, Case, content_of_case, contents_of_case, run_batch, texts_of_case
from heliograph.cli.conf_import import add_import, run_import
from heliograph.cli.usage import Actions
from heliograph.config.actions.roots import LOCAL, SPARK, all_actions, all_connectors
from heliograph.config.actions.roots import action_faults as connector_faults
from heliograph.config.authentication import BuiltInDatabaseConfig, JwtConfig
from heliograph.config.contradictions import open_listener_faults
from heliograph.config.json_schema import json_schema
from heliograph.config.layers import Layers, Sources
from heliograph.config.loading import config_of
from heliograph.config.pipeline_needs import pipeline_needs
from heliograph.config.settings import Config
from heliograph.hocon.document import parse_text
from heliograph.hocon.environment import apply_environment
from heliograph.hocon.errors import HoconError
from heliograph.hocon.files import MemoryFiles
from heliograph.hocon.values import Node, Scalar, scalar_json, to_json
from heliograph.node.checked_config import language_faults
from heliograph.node.file_faults import Fault, file_faults
from heliograph.rpc.conversation import UnreachableError
from heliograph.rpc.methods import RpcError
from heliograph.rpc.socket_path import CONTROL_SOCKET
from heliograph.rules.json_text import encode_exactly
from heliograph.rules.values import string_of
from heliograph.settings.errors import ConfigError
from heliograph.settings.masking import masked
from heliograph.settings.reading import Unusable
from heliograph.settings.secrets import SecretError

_ANSWER_S: Final = 10.0
_BARE_KEY: Final = re.compile(r"[A-Za-z0-9_@%|-]+")


def add_parser(subparsers: Actions) -> None:
    """Add `conf` to the command line."""
    parser = subparsers.add_parser(
        "conf",
        help="show, check or import a configuration file",
        description="Show what a configuration file says, check it for a node, make one of another broker's, or print "
        "what may stand in one.",
    )
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    show = actions.add_parser(
        "show",
        help="print the file as JSON",
        description=(
            "Print as JSON what a node reads that starts with the file: base.hocon beside it, configs/cluster.hocon in "
            "its data directory, the file itself and the HELIOGRAPH_ variables that name settings, one over the other, "
            "with stars for secrets. Defaults are not filled in and nothing is checked. With --batch, "
            'each line of standard input is a case {"text", "files": {name: text}, "env": {name: text}}, answered with '
            '{"value"} or {"error", "line", "file"}; every HELIOGRAPH_ variable of a case applies.'
        ),
    )
    show.add_argument("file", metavar="FILE", type=Path, nargs="?")
    show.add_argument("--config", metavar="FILE", type=Path, help="the same, as other commands have it")
    show.add_argument("--batch", action="store_true", help="read cases from standard input")
    show.add_argument(
        "--origins",
        action="store_true",
        help="print one value per line, each with the layer and line that set it",
    )
    _add_layers(show)
    check = actions.add_parser(
        "check",
        help="check that a node can start with the file",
        description="Check the file and the HELIOGRAPH_ variables as `heliograph start` does, and the certificates, "
        "the files of rules, the data directory and the pipeline file that they name; tell every mistake. A warning "
        "says what needs the pipeline while that is off.",
    )
    check.add_argument("file", metavar="FILE", type=Path)
    _add_layers(check)
    add_import(actions)
    actions.add_parser(
        "schema",
        help="print the JSON Schema of every setting",
        description="Print the JSON Schema (2020-12) of every setting: what is valid, defaults, descriptions and how a "
        "change takes effect. For editors that complete and check configuration files, and for forms.",
    )


def _add_layers(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--base", metavar="FILE", type=Path, help="the file below all others (base.hocon beside FILE)")
    parser.add_argument("--data-dir", metavar="DIR", help="the node's data directory (node.data_dir; default ./data)")


def run(args: argparse.Namespace) -> int:
    """Run an action of `conf`; 1 if the file has a mistake."""
    if args.action == "import":
        return run_import(args, _mistakes, language_faults)
    if args.action == "show" and args.config is not None and args.file is None:
        args.file = args.config
    try:
        if args.action == "show" and args.batch == (args.file is not None):
            print("heliograph: name a file, or give --batch and cases on standard input", file=sys.stderr)
            return 2
        if args.action == "show" and args.batch:
            return run_batch(_answer, refusal={"line": None, "file": None})
        if args.action == "schema":
            print(json.dumps(json_schema(), indent=2, ensure_ascii=False))
            return 0
        options = {} if args.data_dir is None else {"node.data_dir": args.data_dir}
        sources = Sources(args.file, os.environ, options, args.base)
        if args.action == "check":
            layers = sources.read()
            config = config_of(layers, (language_faults, start_faults), os.environ)
            print(f"{args.file}: no mistakes")
            for path, text in pipeline_needs(config):
                print(f"warning: {layers.origin(path)}: {'.'.join(path)}: {text}")
        else:
            _show(sources, origins=args.origins)
    except (HoconError, ConfigError) as error:
        print(f"heliograph: [{error.code}] {error}", file=sys.stderr)
        return 1
    return 0


def _mistakes(file: Path, data_dir: Path) -> tuple[list[str], list[str]]:
    """What keeps a node from starting with a file, without what the environment says; and what needs the pipeline."""
    try:
        layers = Sources(file, {}, {"node.data_dir": str(data_dir)}).read()
        config = config_of(layers, (language_faults, start_faults))
    except (HoconError, ConfigError) as error:
        return str(error).splitlines(), []
    return [], [f"{'.'.join(path)}: {text}" for path, text in pipeline_needs(config)]


def _show(sources: Sources, *, origins: bool) -> None:
    layers = sources.read()
    node = masked(layers.merged, Config)
    print("\n".join(_origin_lines(layers, node)) if origins else to_json(node))


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


def _origin_lines(layers: Layers, root: Node) -> Iterator[str]:
    """Each scalar (and empty container) as `path = value  # layer: file:line`, in the order of the document."""
    pending: list[tuple[tuple[str, ...], Node]] = [((), root)]
    while pending:
        path, node = pending.pop()
        children: list[tuple[tuple[str, ...], Node]] = []
        if isinstance(node.value, dict):
            children = [((*path, key), child) for key, child in node.value.items()]
        elif isinstance(node.value, list):
            children = [((*path, str(index)), item) for index, item in enumerate(node.value, 1)]
        if children:
            pending += reversed(children)
        elif path:
            source = f" (value from {node.source})" if node.source is not None else ""
            place = ".".join(name if _BARE_KEY.fullmatch(name) else json.dumps(name) for name in path)
            yield f"{place} = {to_json(node, None)}  # {layers.origin(path)}{source}"


def start_faults(config: Config) -> Iterator[Fault]:
    """The path of each setting that would stop a start, and why."""
    yield from open_listener_faults(config)
    yield from file_faults(config)
    yield from _authenticators(config)
    yield from _bans(config)
    yield from ((("node", "data_dir"), fault) for fault in _data_dir_faults(config))
    if config.pipeline.enable:
        yield from _pipeline(config.pipeline.file)
    yield from _actions(config)


def _authenticators(config: Config) -> Iterator[Fault]:
    """Files of users and of keys; their modules are loaded where a configuration names some."""
    from heliograph.access.authentication.members import chain_settings

    for _, path, listed in chain_settings(config):
        for number, settings in enumerate(listed, 1):
            here = (*path, str(number))
            if not settings.enable:
                continue
            if isinstance(settings, BuiltInDatabaseConfig) and settings.bootstrap_file:
                yield from _users(settings, here)
            elif isinstance(settings, JwtConfig) and settings.public_key:
                from heliograph.access.authentication.jwt_keys import KeyUnusableError, pem_key

                try:
                    pem_key(settings.public_key)
                except KeyUnusableError as error:
                    yield (*here, "public_key"), str(error)


def _users(settings: BuiltInDatabaseConfig, path: tuple[str, ...]) -> Iterator[Fault]:
    from heliograph.access.users.files import UserFileError
    from heliograph.access.users.intake import checked_users

    file = Path(settings.bootstrap_file)
    form, kind = file.suffix.removeprefix("."), settings.bootstrap_type
    try:
        for _ in checked_users(file.read_bytes(), form, kind, settings.password_hash_algorithm):
            pass
    except OSError as error:
        yield (*path, "bootstrap_file"), f"{file} cannot be read: {error.strerror}"
    except UserFileError as error:
        yield (*path, "bootstrap_file"), f"{file}: {error}"


def _bans(config: Config) -> Iterator[Fault]:
    if config.banned.bootstrap_file:
        from heliograph.access.bans.ban_list import BanList
        from heliograph.access.bans.bootstrap import BootstrapFileError, load_bans

        now_s = int(time.time())
        try:
            load_bans(BanList(lambda: now_s, config.banned.max_entries), config.banned.bootstrap_file, now_s)
        except BootstrapFileError as error:
            yield ("banned", "bootstrap_file"), str(error)


def _data_dir_faults(config: Config) -> Iterator[str]:
    directory = Path(config.node.data_dir)
    there = next(place for place in (directory.absolute(), *directory.absolute().parents) if os.path.lexists(place))
    if not there.is_dir():
        yield f"{str(directory)!r} cannot be used: {there} is no directory"
        return
    try:  # permissions do not say all: some file systems take no directories
        os.rmdir(tempfile.mkdtemp(dir=there, prefix=".heliograph-check-"))
    except OSError as error:
        yield f"{str(directory)!r} cannot be used: {there} cannot be written: {error.strerror}"
        return
    if there != directory.absolute():
        return
    for entry in sorted(there.iterdir()):
        if not os.access(entry, os.R_OK | os.W_OK, follow_symlinks=False) and not entry.is_socket():
            yield f"{str(directory)!r} cannot be used: {entry} is another user's (uid {entry.lstat().st_uid})"
    if fault := _other_node(there, config.node.name):
        yield f"{str(directory)!r} {fault}. Stop it, or choose another directory"


def _other_node(directory: Path, name: str) -> str:
    """That another node uses a directory; empty if none does, or the one that has the checked name."""
    try:
        with (directory / "node.lock").open() as lock:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
            return ""
    except BlockingIOError:
        from heliograph.control.proto_v1.node import NODE_STATUS
        from heliograph.rpc.client import RpcClient
    except OSError:
        return ""  # no node was ever there
    try:
        with RpcClient(directory / CONTROL_SOCKET, "heliograph conf check") as client:
            found = client.ask(NODE_STATUS(), _ANSWER_S).name
    except (RpcError, UnreachableError):
        return "is used by another process"
    return "" if found == name else f"is used by another node, {found}"


def _actions(config: Config) -> Iterator[Fault]:
    """What keeps the actions from running that rules name, as far as this machine tells."""
    found = [one for _, _, one in (*all_connectors(config.connectors), *all_actions(config.actions))]
    # What was refused has no settings to judge, and what names no connector is refused as a contradiction.
    if (
        not found
        or any(isinstance(one, Unusable) for one in found)
        or next(connector_faults(config.connectors, config.actions), None)
    ):
        return
    from heliograph.actions.figures import query_name
    from heliograph.actions.pipeline_file import wanted_actions
    from heliograph.actions.runner_file import runner_actions
    from heliograph.pipeline.runner.settings import action_faults

    local = {query_name(action_id): action_id for action_id, _, _ in wanted_actions(config, LOCAL)}
    try:
        faults = action_faults(runner_actions(config), config.outbound)
    except SecretError as error:
        yield ("actions",), str(error)
        return
    for query, fault in faults.items():
        yield ("actions", *local[query].split(":", 1)), fault
    if config.pipeline.enable and next(wanted_actions(config, SPARK), None) is not None:
        yield from _spark_actions(config)


def _spark_actions(config: Config) -> Iterator[Fault]:
    from heliograph.actions.pipeline_file import actions_file

    with tempfile.TemporaryDirectory(prefix="heliograph-check-") as scratch:  # only this user may enter it
        file = Path(scratch) / "actions.hocon"
        file.write_text(actions_file(config).text)
        yield from ((("actions",), fault.replace(str(file), file.name)) for fault in _file_faults(file))


def _pipeline(file: str) -> Iterator[Fault]:
    path = ("pipeline", "file")
    if importlib.util.find_spec("pyspark") is None:
        yield path, "pyspark is not installed: pip install 'heliograph[pipeline,sinks]'"
        return
    from heliograph.pipeline.errors import JavaNotFoundError
    from heliograph.pipeline.spark.jre import find_java

    try:
        find_java()
    except JavaNotFoundError as error:
        yield ("pipeline", "enable"), str(error)
    if file:
        yield from ((path, fault) for fault in _file_faults(Path(file)))


def _file_faults(file: Path) -> Iterator[str]:
    """The faults of a pipeline file; nothing where Spark is not installed, which is a fault by itself."""
    if importlib.util.find_spec("pyspark") is None:
        return
    # Imported where a node has a pipeline: the others need no Spark.
    from heliograph.pipeline.errors import RuleFileError
    from heliograph.pipeline.files.rulefile import load_pipeline
    from heliograph.pipeline.sinks.libraries import library_fault

    try:
        pipeline = load_pipeline(file)
    except RuleFileError as error:
        yield from error.mistakes
        return
    for name in pipeline.query_names:
        fault = library_fault(pipeline.sink(name))
        if fault is not None:
            yield f"{pipeline.job(name).origin}: {name}: {fault}"
