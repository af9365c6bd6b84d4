"""`ctl pipeline`: the pipeline that a node runs beside itself."""

import argparse

from heliograph.cli.ctl.asking import add_command, add_group, answer_of
from heliograph.cli.ctl.printing import TableColumn, print_json, print_rows, text_of
from heliograph.cli.usage import Actions
from heliograph.control.proto_v1 import pipeline as proto


def _figure(heading: str, name: str) -> TableColumn:
    return TableColumn(heading, lambda row: row.figures.get(name))


_COLUMNS = (
    TableColumn("query", lambda row: row.name),
    "state",
    _figure("batches", "batches"),
    _figure("read", "rows_read"),
    _figure("written", "rows_written"),
    _figure("failed", "rows_failed"),
    _figure("dead letters", "dead_letters"),
    "lag",
    _figure("restarts", "restarts"),
    TableColumn("last error", lambda row: row.last_error.partition("\n")[0]),
)


def add_parser(actions: Actions) -> None:
    """Add `pipeline` and its commands."""
    group = add_group(
        actions,
        "pipeline",
        "show the pipeline of the node",
        "The pipeline that the node runs (`pipeline.enable`). One that runs by itself is shown by `heliograph pipeline "
        "status`.",
        "heliograph ctl pipeline status",
    )
    add_command(
        group,
        _status,
        "status",
        "show its driver and queries, and how far they are behind",
        "heliograph ctl pipeline status --json",
    )


def _status(args: argparse.Namespace) -> int:
    """Show the driver, the queries, and how many messages each has yet to read. Exit code 1: the driver does not
    run.
    """
    status = answer_of(args, proto.PIPELINE_STATUS())
    if args.json:
        print_json(status)
    elif status.is_enabled:
        driver = "its driver does not run" if status.pid is None else f"driver in process {status.pid}"
        print(f"{text_of(status.file)}: {driver}, {status.restarts:,} restarts, {status.failures:,} failures")
        print(f"log: {text_of(status.log_file)}")
        if status.queries:
            print_rows(status.queries, _COLUMNS, False)
    if status.note and not args.json:
        print(text_of(status.note))
    return 0 if status.pid is not None else 1
