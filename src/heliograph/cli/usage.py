"""What the modules of the command share: its parser, what an action is added to, and the error about options."""

import argparse
import re
from pathlib import Path
from typing import Any, Final, NoReturn, TypeAlias

from heliograph.cli.examples import EXAMPLES

Actions: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"

_REQUIRED: Final = "the following arguments are required"  # how argparse begins such an error


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


def split_example(text: str) -> tuple[str, str]:
    """The prose of an epilog, and the lines of its example with their head; each may be empty."""
    found = re.search(r"^examples?:$", text, re.MULTILINE)
    return (text, "") if found is None else (text[: found.start()].rstrip(), text[found.start() :])


def example_of(*lines: str) -> str:
    """The epilog of a parser that shows how the command is used."""
    return "\n".join([f"example{'s' if len(lines) > 1 else ''}:", *(f"  {line}" for line in lines)])


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
