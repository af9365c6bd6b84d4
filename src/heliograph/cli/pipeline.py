"""`heliograph pipeline`: runs rules on Spark over what the broker has stored. The pipeline is `heliograph.pipeline`.

Here are the options; `heliograph.cli.pipeline_actions` carries them out.
"""

import argparse
import importlib.util
import logging
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final

from heliograph.cli.usage import Actions, fail

_WITHOUT_SPARK: Final = ("dlq ls", "dlq show")


def add_parser(subparsers: Actions) -> None:
    """Add `pipeline` and its actions to the command's parser."""
    pipeline = subparsers.add_parser(
        "pipeline",
        help="run rules on Spark: stored messages into tables and messages",
        description="Run the rules and jobs of a pipeline file on Apache Spark, from stored messages to tables.",
    )
    actions = pipeline.add_subparsers(dest="action", required=True, metavar="ACTION")
    _add_validate(actions)
    _add_plan(actions)
    _add_run(actions, "run", "run the queries of a pipeline", "Run each rule and job as a Spark streaming query")
    _add_run(
        actions,
        "once",
        "process what is stored now, then end",
        "Bring what is stored now through each rule and job",
    )
    _add_backfill(actions)
    _add_probe(actions)
    _add_status(actions)
    _add_dlq(actions)
    _add_late(actions)
    pipeline.set_defaults(run=run)


def _add_validate(actions: Actions) -> None:
    parser = actions.add_parser(
        "validate",
        help="check a pipeline without reading messages",
        description="Parse every rule, and have Spark analyze every job in Spark SQL against the columns of its views. "
        "No message is read and nothing is written. The exit code is 2 if something is not valid.",
    )
    parser.add_argument(
        "--no-spark", action="store_true", help="check only what needs no Spark: the file, its rules and sinks"
    )
    parser.add_argument("--java", action="store_true", help="with --no-spark: check that Spark would find Java, too")
    _add_file(parser)
    _add_engines(parser)


def _add_plan(actions: Actions) -> None:
    parser = actions.add_parser(
        "plan",
        help="show what each rule and job makes of the last messages, without writing",
        description="A dry run: how each query runs, where its rows would go, and which rows it makes of the last "
        "stored messages. Nothing is written.",
    )
    _add_file(parser)
    _add_output(parser)
    parser.add_argument("--last", type=_count, default=10, metavar="N", help="messages of each view (default: 10)")
    parser.add_argument("--rule", metavar="NAME", help="this rule or job only")
    parser.add_argument("--json", action="store_true", help="print one line of JSON for each rule and job")
    _add_engines(parser)


def _add_run(actions: Actions, name: str, summary: str, what: str) -> None:
    parser = actions.add_parser(
        name,
        help=summary,
        description=f"{what} into its sink. Stop with Ctrl-C or SIGTERM; the next run goes on where this one ended. "
        "The exit code is 1 if a query was given up, 2 if nothing could be started.",
    )
    _add_file(parser)
    _add_places(parser)
    if name == "run":
        parser.add_argument(
            "--trigger", type=_seconds, default=1.0, metavar="TIME", help="pace of micro-batches (default: 1s)"
        )
        # The node that started it holds the other end of its standard input.
        parser.add_argument("--watch-stdin", action="store_true", help=argparse.SUPPRESS)
        parser.add_argument("--no-reload", action="store_true", help="do not take over changes of the files")
    _add_engines(parser)
    parser.add_argument("--json", action="store_true", help="print the figures at the end as one line of JSON")


def _add_backfill(actions: Actions) -> None:
    parser = actions.add_parser(
        "backfill",
        help="run rules over the past into their sinks",
        description="Run rules over the messages stored from one time to another, into the sinks that they have. "
        "Without --to it ends where the running query began, without gap or overlap. One that was interrupted goes on "
        "when it is called again, and one that is done does nothing.",
    )
    _add_file(parser)
    _add_places(parser)
    parser.add_argument(
        "--from", dest="since", required=True, metavar="T", help="earliest, or a time of storing such as 2026-01-31"
    )
    parser.add_argument("--to", dest="until", metavar="T", help="the time to stop before")
    parser.add_argument("--rule", metavar="NAME", help="this rule only (default: every rule with a sink)")
    _add_engines(parser)
    parser.add_argument("--json", action="store_true", help="print the figures at the end as one line of JSON")


def _add_probe(actions: Actions) -> None:
    parser = actions.add_parser(
        "probe",
        help="see whether the targets of sinks can be reached",
        description="Connect to the target of each sink, log in, and write nothing; a target whose kind has no "
        "such test passes. Of a rule it tells which columns its table lacks. Needs no Spark. The exit code is 1 if a "
        "target cannot be reached, or cannot take the rows.",
    )
    _add_file(parser)
    _add_output(parser)
    parser.add_argument(
        "--mqtt", default="127.0.0.1:1883", metavar="H:P", help="MQTT for sinks (default: 127.0.0.1:1883)"
    )


def _add_status(actions: Actions) -> None:
    parser = actions.add_parser(
        "status",
        help="show what a pipeline has done",
        description="Whether a driver runs, and the figures of each query. The exit code is 1 if none runs.",
    )
    parser.add_argument("--checkpoint", type=Path, required=True, metavar="DIR", help="the pipeline's checkpoint")
    parser.add_argument("--json", action="store_true", help="print one line of JSON")


def _add_dlq(actions: Actions) -> None:
    dlq = actions.add_parser(
        "dlq",
        help="dead letters: what rules and sinks refused",
        description="Look at rows that rules and sinks refused, and bring them to their sinks later.",
    )
    letters = dlq.add_subparsers(dest="side_action", required=True, metavar="ACTION")
    ls = letters.add_parser(
        "ls", help="count them by rule and cause", description="Count dead letters by rule and cause."
    )
    show = letters.add_parser(
        "show", help="show those of a rule", description="Show the dead letters of a rule, the newest first."
    )
    replay = letters.add_parser(
        "replay",
        help="bring them to the sink after the rule was mended",
        description="Run the rule as it is now over its dead letters, and bring the rows to its sink. Letters that "
        "fail again stay. The pipeline itself may run meanwhile.",
    )
    for parser in (show, replay):
        parser.add_argument("rule", metavar="RULE", help="name of the rule or job")
    _add_looking(ls, show, "letters", "dead_letters")
    _add_file(replay)
    _add_places(replay)
    _add_engines(replay)
    replay.add_argument("--json", action="store_true", help="print one line of JSON")


def _add_late(actions: Actions) -> None:
    late = actions.add_parser(
        "late",
        help="late rows: what came later than a watermark allows",
        description="Look at rows that came later than the watermark of their query allows, and were left out; bring "
        "them to a table or sink of their own.",
    )
    rows = late.add_subparsers(dest="side_action", required=True, metavar="ACTION")
    ls = rows.add_parser("ls", help="count them by query and view", description="Count late rows by query and view.")
    show = rows.add_parser(
        "show", help="show those of a query", description="Show the late rows of a query, the newest batches first."
    )
    replay = rows.add_parser(
        "replay",
        help="bring them to a table or sink of their own",
        description="Bring the late rows of a query, as they arrived, to a Parquet table or a sink that has a name in "
        "the file. They do not go to the sink of the query, whose results are final. Rows that the sink refuses stay. "
        "The pipeline itself may run meanwhile.",
    )
    for parser in (show, replay):
        parser.add_argument("query", metavar="QUERY", help="name of the rule or job")
    _add_looking(ls, show, "rows", "late")
    _add_file(replay)
    target = replay.add_mutually_exclusive_group(required=True)
    target.add_argument("--table", metavar="NAME", help="to this Parquet table below --output")
    target.add_argument("--sink", metavar="NAME", help="to this sink of the file, one under `sinks`")
    replay.add_argument("--view", metavar="NAME", help="those of this view (needed where several have any)")
    _add_places(replay)
    _add_engines(replay)
    replay.add_argument("--json", action="store_true", help="print one line of JSON")


def _add_looking(ls: argparse.ArgumentParser, show: argparse.ArgumentParser, what: str, place: str) -> None:
    """Add the options of looking at what a pipeline put aside; `place` is the group of settings that says where."""
    show.add_argument("--limit", type=_count, default=20, metavar="N", help=f"{what} at most (default: 20)")
    show.add_argument("--all", action="store_true", help="those that were replayed, too")
    for parser in (ls, show):
        _add_output(parser)
        parser.add_argument("--path", default=place, metavar="DIR", help=f"{place}.path of the pipeline's file")
        parser.add_argument("--json", action="store_true", help="print lines of JSON")


def _add_file(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", type=Path, metavar="FILE", help="pipeline file, or directory of pipeline files")
    # What a node makes of its actions, beside the file of its operator.
    parser.add_argument("--actions", type=Path, help=argparse.SUPPRESS)


def _add_places(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--checkpoint", type=Path, required=True, metavar="DIR", help="where the pipeline keeps its place"
    )
    _add_output(parser)


def _add_output(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--output", type=Path, default=Path("output"), metavar="DIR", help="tables (default: output)")


def _add_engines(parser: argparse.ArgumentParser) -> None:
    """Add the options of the broker that messages come from, and of Spark."""
    group = parser.add_argument_group("broker")
    group.add_argument(
        "--endpoint", default="127.0.0.1:8815", metavar="H:P", help="storage reader (default: 127.0.0.1:8815)"
    )
    group.add_argument(
        "--token-file", type=Path, metavar="FILE", help="token for the reader (or HELIOGRAPH_PIPELINE_TOKEN)"
    )
    group.add_argument("--tls-ca", metavar="FILE", help="authorities of the reader's certificate; turns TLS on")
    group.add_argument(
        "--mqtt", default="127.0.0.1:1883", metavar="H:P", help="MQTT for sinks (default: 127.0.0.1:1883)"
    )
    group.add_argument(
        "--start", default="earliest", metavar="WHEN", help="where new queries begin: earliest, latest or a time"
    )
    group.add_argument("--max-messages-per-trigger", type=_count, metavar="N", help="messages of a micro-batch at most")
    group = parser.add_argument_group("Spark")
    group.add_argument("--master", default="local[*]", metavar="URL", help="Spark master (default: local[*])")
    group.add_argument(
        "--conf",
        action="append",
        default=[],
        type=_setting,
        metavar="NAME=VALUE",
        help="Spark configuration; may be given several times",
    )
    group.add_argument("--spark-log", type=Path, metavar="FILE", help="Spark's log (default: spark.log)")


def run(args: argparse.Namespace) -> int:
    """Carry out what the options ask for; the exit code."""
    name = f"{args.action} {args.side_action}" if "side_action" in args else args.action
    needed = () if name in _WITHOUT_SPARK else ("pyspark",)
    if missing := [module for module in needed if importlib.util.find_spec(module) is None]:
        return fail("pipeline", f"{missing[0]} is not installed: pip install 'heliograph[pipeline]'", 2)
    # Imported here so that the other commands start without Spark.
    from heliograph.pipeline.errors import PipelineError, SparkEndedError

    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s", stream=sys.stderr)
    # The driver logs what goes wrong in a query; these would repeat it with stack traces.
    for logger in ("py4j", "SQLQueryContextLogger"):
        logging.getLogger(logger).setLevel(logging.CRITICAL)
    logging.getLogger().addFilter(_is_not_of_py4j)
    # It logs the whole address of each request, in which there may be a secret.
    logging.getLogger("httpx").setLevel(logging.WARNING)
    try:
        return _act(name)(args)
    except PipelineError as error:
        return fail("pipeline", f"[{error.code}] {error}", 1 if isinstance(error, SparkEndedError) else 2)
    except OSError as error:
        return fail("pipeline", str(error), 2)


def _act(name: str) -> Callable[[argparse.Namespace], int]:
    if name in _WITHOUT_SPARK:
        from heliograph.cli.pipeline_letters import LOOKS

        return LOOKS[name]
    from heliograph.cli.pipeline_actions import ACTIONS

    return ACTIONS[name]


def _seconds(text: str) -> float:
    for ending, factor in (("ms", 0.001), ("s", 1.0), ("m", 60.0)):
        if text.endswith(ending) and text.removesuffix(ending).replace(".", "", 1).isdecimal():
            return float(text.removesuffix(ending)) * factor
    raise argparse.ArgumentTypeError(f"{text!r} is not a duration such as 500ms, 1s or 1m")


def _setting(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=VALUE, such as spark.driver.memory=2g")
    return name, value


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) == 0:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number greater than 0")
    return int(text)


def _is_not_of_py4j(record: logging.LogRecord) -> bool:
    """False for what py4j logs as the root logger: stack traces of what the driver says itself, or of a stop."""
    return Path(record.pathname).parent.name != "py4j"
