"""What the modules of the command share: its parser, the examples of commands, and the error about options."""

import argparse
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, NoReturn, TypeAlias

Actions: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"
_REQUIRED: Final = "the following arguments are required"  # how argparse begins such an error
EXAMPLES: Final = {
    "": ("heliograph start --data-dir data", "heliograph subscribe -t '#' -v", "heliograph ctl status"),
    "start": ("heliograph start --config node.conf --data-dir /var/lib/heliograph",),
    "conf": ("heliograph conf check node.conf",),
    "conf show": ("heliograph conf show node.conf --origins",),
    "conf check": ("heliograph conf check node.conf",),
    "conf import": (
        "heliograph conf import /etc/mosquitto/mosquitto.conf --output /etc/heliograph",
        "heliograph conf import emqx.conf emqx-export-2026-01-31.tar.gz",
    ),
    "conf schema": ("heliograph conf schema > heliograph.schema.json",),
    "backup": ("heliograph backup list /mnt/backups/node1",),
    "backup list": ("heliograph backup list s3://bucket/node1 --json",),
    "backup verify": ("heliograph backup verify /mnt/backups/node1",),
    "backup restore": ("heliograph backup restore /mnt/backups/node1 --data-dir /var/lib/heliograph",),
    "storage": ("heliograph storage info --data-dir data",),
    "storage info": ("heliograph storage info --data-dir data",),
    "storage ls": ("heliograph storage ls --data-dir data --json",),
    "storage lts": ("heliograph storage lts messages --shard 0",),
    "storage check": ("heliograph storage check messages --repair",),
    "storage export": ("heliograph storage export messages --to export --topic 'weather/#'",),
    "storage offload": ("heliograph storage offload messages --to s3://bucket/messages --dry-run",),
    "erase": (
        "heliograph erase --client dev-4711 --data-dir data",
        "heliograph erase --topic 'devices/dev-4711/#' --yes",
    ),
    "retainer": ("heliograph retainer ls 'weather/#'",),
    "retainer info": ("heliograph retainer info --data-dir data",),
    "retainer ls": ("heliograph retainer ls 'weather/#' --limit 20",),
    "retainer delete": ("heliograph retainer delete 'old/#'",),
    "rule": ("heliograph rule explain \"SELECT payload.t AS t FROM 'weather/#'\"",),
    "rule test": (
        "heliograph rule test --sql \"SELECT payload.t + 1 AS t FROM 't/#'\" --topic t/1 --payload '{\"t\": 20}'",
    ),
    "rule explain": ("heliograph rule explain \"SELECT payload.t AS t FROM 'weather/#' WHERE payload.t > 30\"",),
    "rule replay": ("heliograph rule replay warm_rooms --from 2026-01-31T00:00 --compare pipeline:warm_rooms",),
    "rule functions": ("heliograph rule functions | grep json",),
    "schema": ("heliograph schema ls --config node.conf",),
    "schema ls": ("heliograph schema ls --config node.conf",),
    "schema check": ("heliograph schema check --config node.conf weather observation.json",),
    "message": ("heliograph message test --config node.conf --topic weather/jfk --payload '{\"t\": 21}'",),
    "message test": ("heliograph message test --config node.conf --topic weather/jfk --payload '{\"t\": 21}'",),
    "variform": ('heliograph variform eval "concat([\'a\', clientid])" --bindings \'{"clientid": "c1"}\'',),
    "variform eval": ('heliograph variform eval "concat([\'a\', clientid])" --bindings \'{"clientid": "c1"}\'',),
    "topic": ("heliograph topic match 'a/+/#' a/b/c",),
    "topic match": ("heliograph topic match 'a/+/#' a/b/c",),
    "topic parse": ("heliograph topic parse '$share/group/a/+'",),
    "topic validate": ("heliograph topic validate 'a/#'", "heliograph topic validate --topic a/b"),
    "pipeline": ("heliograph pipeline run rules.conf --checkpoint state",),
    "pipeline validate": ("heliograph pipeline validate rules.conf",),
    "pipeline probe": ("heliograph pipeline probe rules.conf",),
    "pipeline plan": ("heliograph pipeline plan rules.conf --last 100",),
    "pipeline run": ("heliograph pipeline run rules.conf --checkpoint state --output tables",),
    "pipeline once": ("heliograph pipeline once rules.conf --checkpoint state",),
    "pipeline backfill": ("heliograph pipeline backfill rules.conf --checkpoint state --from 2026-01-01",),
    "pipeline status": ("heliograph pipeline status --checkpoint state",),
    "pipeline dlq": ("heliograph pipeline dlq ls",),
    "pipeline dlq ls": ("heliograph pipeline dlq ls --output tables",),
    "pipeline dlq show": ("heliograph pipeline dlq show weather_obs --limit 5",),
    "pipeline dlq replay": ("heliograph pipeline dlq replay weather_obs rules.conf --checkpoint state",),
    "pipeline late": ("heliograph pipeline late ls",),
    "pipeline late ls": ("heliograph pipeline late ls --output tables",),
    "pipeline late show": ("heliograph pipeline late show hourly --limit 5",),
    "pipeline late replay": (
        "heliograph pipeline late replay hourly rules.conf --checkpoint state --table hourly_late",
    ),
    "bench": ("heliograph bench pair --clients 10 --duration 5",),
    "bench pub": ("heliograph bench pub -t load/%i -q 1 --duration 5",),
    "bench sub": ("heliograph bench sub -t 'load/#' --count 1000",),
    "bench pair": ("heliograph bench pair --clients 10 -q 1 --duration 5",),
    "bench fan-in": ("heliograph bench fan-in --publishers 50 --duration 5",),
    "bench fan-out": ("heliograph bench fan-out --subscribers 50 --duration 5",),
    "bench connect": ("heliograph bench connect --clients 1000 --duration 10",),
    "completion": ("heliograph completion bash > ~/.local/share/bash-completion/completions/heliograph",),
}


class UsageError(Exception):
    """The options do not make sense; the message says what to do."""


class _HelpFormatter(argparse.HelpFormatter):
    """Wraps descriptions, and leaves the lines of examples as they are."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        prose, lines = split_example(text)
        filled = super()._fill_text(prose, width, indent) + "\n\n" if prose else ""
        return filled + "".join(f"{indent}{line}\n" for line in lines.splitlines())


class CommandParser(argparse.ArgumentParser):
    """The parser of `heliograph`, and of each command below it: its epilog is an example, as `example_of` makes it."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **{"formatter_class": _HelpFormatter, **options})
        lines = EXAMPLES.get(self.prog.partition(" ")[2])
        if lines is not None:
            self.epilog = "\n\n".join(text for text in (self.epilog, example_of(*lines)) if text)

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> tuple[Any, list[str]]:
        """The parsed arguments; an unknown one is an error with the usage of its command."""
        known, unknown = super().parse_known_args(args, namespace)
        if unknown and self.description and not commands_of(self):  # one without is only named, not loaded
            self.error(f"unrecognized arguments: {' '.join(unknown)}")
        return known, unknown

    def error(self, message: str) -> NoReturn:
        """Say what is wrong; where a command is missing, also which there are."""
        if message.startswith(_REQUIRED) and (commands := commands_of(self)):
            message += f" (choose from {', '.join(map(repr, commands))})"
        super().error(message)


def fail(command: str, problem: str, exit_code: int = 1) -> int:
    """Say on standard error why a command failed; the exit code."""
    print(f"heliograph {command}: {problem}", file=sys.stderr, flush=True)
    return exit_code


def split_example(text: str) -> tuple[str, str]:
    """The prose of an epilog, and the lines of its example with their head; each may be empty."""
    found = re.search(r"^examples?:$", text, re.MULTILINE)
    return (text, "") if found is None else (text[: found.start()].rstrip(), text[found.start() :])


def example_of(*lines: str) -> str:
    """The epilog of a parser that shows how the command is used."""
    return "\n".join([f"example{'s' if len(lines) > 1 else ''}:", *(f"  {line}" for line in lines)])


def description_of(act: Callable[..., int]) -> str:
    """What a command does: the docstring of the function that carries it out, as one line."""
    return " ".join((act.__doc__ or "").split())


def arguments_of(parser: argparse.ArgumentParser) -> list[argparse.Action]:
    """The arguments and options of a parser, without those of the commands below it."""
    return [action for action in parser._actions if not isinstance(action, argparse._SubParsersAction)]


def commands_of(parser: argparse.ArgumentParser) -> dict[str, tuple[str, argparse.ArgumentParser]]:
    """The commands of a parser by name: the summary of each, and its parser."""
    found: dict[str, tuple[str, argparse.ArgumentParser]] = {}
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            summaries = {choice.dest: choice.help or "" for choice in action._choices_actions}
            named = {id(inner): (name, inner) for name, inner in reversed(action.choices.items())}  # without aliases
            found |= {name: (summaries.get(name, ""), inner) for name, inner in reversed(named.values())}
    return found


def add_node_options(parser: argparse.ArgumentParser, *, is_inner: bool = False) -> None:
    """Add the options that say which node's data directory is meant, and `--json`.

    Args:
        is_inner: Whether a parser around this one has them too, so that they may stand before its command as well.
    """
    none, no = (argparse.SUPPRESS, argparse.SUPPRESS) if is_inner else (None, False)
    add = parser.add_argument
    add("--config", metavar="FILE", type=Path, default=none, help="the node's HOCON file, for its node.data_dir")
    add("--data-dir", metavar="DIR", default=none, help="the node's data directory (node.data_dir; default ./data)")
    add("--json", action="store_true", default=no, help="print JSON")
