"""`heliograph pipeline`: runs rules on Spark over what the broker has stored. The pipeline is `heliograph.pipeline`."""

import argparse
import importlib.util
import json
import logging
import signal
import sys
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from heliograph.pipeline.definition import Pipeline
    from heliograph.pipeline.driver import PipelineDriver
    from heliograph.pipeline.progress import QueryFigures
    from heliograph.pipeline.queries import RunSettings


def add_parser(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add `pipeline` and its actions to the command's parser."""
    pipeline = subparsers.add_parser("pipeline", help="run rules on Spark: stored messages into tables and messages")
    actions = pipeline.add_subparsers(dest="action", required=True, metavar="ACTION")
    parser = actions.add_parser(
        "run",
        help="run the rules of a file or directory",
        description="Run each rule as a Spark streaming query into its sink. Stop with Ctrl-C or SIGTERM; the next run "
        "goes on where this one ended. The exit code is 1 if a query was given up, 2 if nothing could be started.",
    )
    parser.add_argument(
        "--rules", type=Path, required=True, metavar="PATH", help="rule file, or directory of rule files"
    )
    parser.add_argument(
        "--checkpoint", type=Path, required=True, metavar="DIR", help="where the pipeline keeps its place"
    )
    parser.add_argument(
        "--output", type=Path, default=Path("output"), metavar="DIR", help="Parquet tables (default: output)"
    )
    parser.add_argument("--once", action="store_true", help="process what is stored now, then end")
    parser.add_argument(
        "--trigger", type=_seconds, default=1.0, metavar="TIME", help="pace of micro-batches (default: 1s)"
    )
    _add_source(parser)
    _add_spark(parser)
    parser.add_argument("--json", action="store_true", help="print the figures at the end as one line of JSON")
    pipeline.set_defaults(run=run)


def _add_source(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("broker")
    group.add_argument(
        "--endpoint", default="127.0.0.1:8815", metavar="H:P", help="storage reader (default: 127.0.0.1:8815)"
    )
    group.add_argument(
        "--mqtt", default="127.0.0.1:1883", metavar="H:P", help="MQTT for sinks (default: 127.0.0.1:1883)"
    )
    group.add_argument(
        "--start", default="earliest", metavar="WHEN", help="where new queries begin: earliest, latest or a time"
    )
    group.add_argument("--max-messages-per-trigger", type=_count, metavar="N", help="messages of a micro-batch at most")


def _add_spark(parser: argparse.ArgumentParser) -> None:
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
    group.add_argument(
        "--spark-log", type=Path, metavar="FILE", help="Spark's log (default: spark.log in the checkpoint)"
    )


def run(args: argparse.Namespace) -> int:
    """Carry out what the options ask for; the exit code."""
    if missing := [name for name in ("pyspark", "paho") if importlib.util.find_spec(name) is None]:
        print(
            f"heliograph pipeline: {missing[0]} is not installed: pip install 'heliograph[pipeline]'", file=sys.stderr
        )
        return 2
    # Imported here so that the other commands start without Spark.
    from heliograph.pipeline.driver import checkpoint_lock
    from heliograph.pipeline.errors import PipelineError, SparkEndedError
    from heliograph.pipeline.rulefile import load_pipeline

    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s", stream=sys.stderr)
    # What goes wrong in a query is told by the driver; these would tell it again, with stack traces.
    for name in ("py4j", "SQLQueryContextLogger"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
    try:
        settings = _settings(args)
        pipeline = load_pipeline(args.rules)
        with checkpoint_lock(args.checkpoint) as lock:
            return _drive(args, pipeline, settings, lock)
    except PipelineError as error:
        print(f"heliograph pipeline: [{error.code}] {error}", file=sys.stderr)
        return 1 if isinstance(error, SparkEndedError) else 2
    except OSError as error:
        print(f"heliograph pipeline: {error}", file=sys.stderr)
        return 2


def _drive(args: argparse.Namespace, pipeline: "Pipeline", settings: "RunSettings", lock: int) -> int:
    from heliograph.pipeline.driver import PipelineDriver
    from heliograph.pipeline.spark import start_session, stop_session

    log = logging.getLogger("heliograph.pipeline")
    spark_log = args.spark_log or args.checkpoint / "spark.log"
    log.info("starting Spark (%s), its log is %s", args.master, spark_log)
    session = start_session(args.master, "heliograph pipeline", dict(args.conf), log_file=spark_log, pass_fds=[lock])
    try:
        driver = PipelineDriver(session, pipeline, settings)
        _stop_on_signals(driver)
        log.info("running %s", ", ".join(pipeline.query_names))
        succeeded = driver.run()
    finally:
        stop_session(session)
    _print_figures(driver.figures, args.json)
    return 0 if succeeded else 1


def _settings(args: argparse.Namespace) -> "RunSettings":
    from heliograph.pipeline.options import SourceOptions, parse_endpoint
    from heliograph.pipeline.queries import RunSettings

    source = {"endpoint": args.endpoint, "start": args.start}
    if args.max_messages_per_trigger is not None:
        source["maxMessagesPerTrigger"] = str(args.max_messages_per_trigger)
    SourceOptions.of(source)
    parse_endpoint("--mqtt", args.mqtt)
    trigger_s = None if args.once else args.trigger
    return RunSettings(args.checkpoint, args.output, args.mqtt, source, trigger_s)


def _stop_on_signals(driver: "PipelineDriver") -> None:
    def stop(number: int, frame: FrameType | None) -> None:
        driver.stop()

    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)


def _print_figures(figures: "list[QueryFigures]", as_json: bool) -> None:
    from heliograph.pipeline.progress import summary_table

    if as_json:
        print(json.dumps({"queries": [query.to_json() for query in figures]}), flush=True)
    else:
        print(summary_table(figures), flush=True)


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
