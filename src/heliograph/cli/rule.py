"""`heliograph rule`: tries a rule on one message with either engine, and explains how it runs. The language is in
`heliograph.rules`.
"""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from heliograph.cli.usage import Actions, UsageError, add_node_options, fail

if TYPE_CHECKING:
    from heliograph.rules.schemas.settings import SchemaSettings
    from heliograph.rules.values import Value


def add_parser(subparsers: Actions) -> None:
    """Add `rule` and its actions to the command's parser."""
    rule = subparsers.add_parser(
        "rule",
        help="test and explain rules",
        description="Try rules on messages, and explain what they read.",
    )
    actions = rule.add_subparsers(dest="action", required=True, metavar="ACTION")
    _add_test(actions)
    _add_explain(actions)
    _add_replay(actions)
    actions.add_parser(
        "functions", help="list the functions", description="Print every function of the language with its meaning."
    )
    rule.set_defaults(run=run)


def _add_test(actions: Actions) -> None:
    parser = actions.add_parser(
        "test",
        help="evaluate a rule on one message",
        description="Evaluate a rule on one message or event and print the output rows as a JSON array, which is empty "
        "where nothing matches. Columns that no option gives have sample values, and without --topic and --event the "
        "rule's own FROM decides. The exit code is 1 if the rule is refused or fails. With --batch, each "
        'line of standard input is a case {"sql", "topic" or "event", "context", "env"?} with columns as context, '
        'answered with {"rows"} or {"error", "phase"}; on Spark all of them are one job.',
    )
    parser.add_argument("--batch", action="store_true", help="read cases from standard input")
    _add_rule(parser)
    message = parser.add_argument_group("message or event")
    about = message.add_mutually_exclusive_group()
    about.add_argument("--topic", metavar="T", help="topic name it is published to (default: one that FROM matches)")
    about.add_argument("--event", metavar="E", help="an event, such as $events/client/connected, instead of a message")
    payload = message.add_mutually_exclusive_group()
    payload.add_argument("--payload", metavar="P", help="payload")
    payload.add_argument("--payload-file", metavar="FILE", help="file with the payload, - for standard input")
    message.add_argument("--qos", type=int, choices=(0, 1, 2), help="QoS")
    message.add_argument("--retain", action="store_true", help="set the retain flag")
    message.add_argument("--clientid", metavar="ID", help="publisher")
    message.add_argument("--username", metavar="NAME", help="the publisher's user name")
    message.add_argument("--context", metavar="JSON", help="further columns as a JSON object; they count before others")
    message.add_argument(
        "--property",
        type=_property,
        action="append",
        default=[],
        metavar="NAME=TEXT",
        help="MQTT 5 property such as Content-Type=text/plain or User-Property.unit=F; may be given several times",
    )
    _add_schemas(parser)
    parser.add_argument(
        "--engine", choices=("broker", "spark"), default="broker", help="which engine evaluates (default: broker)"
    )


def _add_explain(actions: Actions) -> None:
    parser = actions.add_parser(
        "explain",
        help="show what a rule reads and outputs, and what runs where on Spark",
        description="Show the topics a rule reads, its output columns with their types, and for each whether Spark "
        "evaluates it itself or hands it to the broker's engine, and why.",
    )
    parser.add_argument("rule", nargs="?", metavar="SQL", help="the rule")
    parser.add_argument("--file", type=Path, metavar="FILE", help="file with the rule, instead of SQL")
    _add_schemas(parser)


def _add_replay(actions: Actions) -> None:
    parser = actions.add_parser(
        "replay",
        help="run a rule over the stored messages of a node",
        description="Run a rule over what a running node stored within a stretch of time, and print the number of its "
        "rows, failures and rates, and the first rows. The rows go nowhere else. With --compare, another rule runs "
        "over the same messages, and the rows that are added, gone and changed are printed. Ctrl-C ends it.",
    )
    parser.add_argument(
        "rule",
        metavar="RULE_OR_SQL",
        help="a rule of the broker, one of the pipeline that the node runs (pipeline:NAME), or SQL",
    )
    parser.add_argument(
        "--from",
        dest="since",
        required=True,
        metavar="T",
        help="earliest, or a time of storing such as 2026-01-31T00:00 (UTC)",
    )
    parser.add_argument("--to", dest="until", default="now", metavar="T", help="the time to stop before (default: now)")
    parser.add_argument(
        "--engine", choices=("broker", "spark"), default="broker", help="which engine evaluates (default: broker)"
    )
    parser.add_argument(
        "--compare", default="", metavar="RULE_OR_SQL", help="the rule, or SQL, that it is compared with"
    )
    parser.add_argument("--rows", type=_count, default=20, metavar="N", help="rows that are shown (default: 20)")
    parser.add_argument(
        "--seconds", type=_count, default=600, metavar="S", help="when it ends by itself (default: 600)"
    )
    parser.add_argument(
        "--start", action="store_true", help="then the pipeline brings all rows since --from to the rule's sink"
    )
    add_node_options(parser)


def _add_schemas(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--schemas",
        type=Path,
        metavar="FILE",
        help="pipeline file or node configuration whose schemas the rule may name",
    )


def _add_rule(parser: argparse.ArgumentParser) -> None:
    rule = parser.add_mutually_exclusive_group()
    rule.add_argument("--sql", metavar="SQL", help="the rule")
    rule.add_argument("--file", type=Path, metavar="FILE", help="file with the rule")


def _property(text: str) -> tuple[str, str]:
    name, separator, value = text.partition("=")
    if not name or not separator:
        raise argparse.ArgumentTypeError(f"{text!r} is not of the form NAME=TEXT")
    return name, value


def _count(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= 3600:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 1 to 3600")
    return int(text)


def run(args: argparse.Namespace) -> int:
    """Carry out what the options ask for; the exit code."""
    # Imported here so that the other commands start without the rule language.
    from heliograph.cli.batch import CaseError
    from heliograph.rules.errors import EvaluationFault, RuleError

    try:
        if args.action == "functions":
            return _functions()
        if args.action == "replay":
            from heliograph.cli.rule_replay import run_replay_command

            return run_replay_command(args)
        if args.action == "explain":
            return _explain(_rule_text(args.rule, args.file), _schemas(args.schemas))
        schemas = _schemas(args.schemas)
        if args.batch:
            return _batch(args, schemas)
        from heliograph.cli.rule_sample import try_rule

        rows = try_rule(_rule_text(args.sql, args.file), args, schemas)
        print(_json_array(rows), flush=True)
    except RuleError as error:
        return fail("rule", f"[{error.code}] {args.file}: {error}" if args.file else f"[{error.code}] {error}")
    except EvaluationFault as fault:
        return fail("rule", f"the output cannot be shown as JSON: {fault}")
    except (UsageError, CaseError) as error:
        return fail("rule", str(error))
    except OSError as error:
        return fail("rule", f"{error.filename}: {error.strerror}" if error.filename is not None else str(error))
    return 0


def _schemas(file: Path | None) -> "tuple[SchemaSettings, ...]":
    if file is None:
        return ()
    # Their libraries are for those who ask for schemas.
    from heliograph.hocon.document import parse_file
    from heliograph.hocon.errors import HoconError
    from heliograph.pipeline.datasource.schemas import read_schemas
    from heliograph.pipeline.errors import RuleFileError
    from heliograph.pipeline.files.section import FileSection

    try:
        settings = read_schemas(FileSection(parse_file(file)))
    except (HoconError, RuleFileError) as error:
        raise UsageError(f"--schemas: {error}") from None
    if not settings:
        raise UsageError(f"--schemas: {file} has neither a section schemas nor schema_registry with schemas in it")
    return settings


def _batch(args: argparse.Namespace, schemas: "tuple[SchemaSettings, ...]") -> int:
    from heliograph.cli.rule_batch import run_cases

    if any(option is not None for option in (args.sql, args.file, args.topic, args.event, args.context)):
        raise UsageError("--batch takes rules and topics from standard input, not from --sql, --file and --topic")
    return run_cases(args.engine, schemas)


def _rule_text(sql: str | None, file: Path | None) -> str:
    if (sql is None) == (file is None):
        raise UsageError("give the rule or --file FILE")
    return sql if sql is not None else _read(file)


def _read(file: Path | None) -> str:
    assert file is not None
    try:
        return file.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise UsageError(f"{file}: not valid UTF-8 text (byte {error.start})") from None


def _functions() -> int:
    from heliograph.rules.reference import function_reference

    print(function_reference(), flush=True)
    return 0


def _explain(text: str, schemas: "tuple[SchemaSettings, ...]") -> int:
    from heliograph.rules.spark import explain

    named = [f"schema   {schema.name}, {schema.type}" for schema in schemas]
    print("\n".join([explain(text), "", *named] if named else [explain(text)]), flush=True)
    return 0


def _json_array(rows: "list[dict[str, Value]]") -> str:
    from heliograph.rules.json_text import encode_json

    return "[" + ",\n ".join(encode_json(row) for row in rows) + "]"
