"""`heliograph storage`: what lies in a node's data directory, whether it is whole, mending and exporting it.

Everything but `check --repair` only reads, beside a running node or of a stopped one, and changes nothing.
"""

import argparse
import json
import os
from collections.abc import Callable, Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from heliograph.cli.data_dir import add_action, run_in_data_dir
from heliograph.cli.usage import Actions
from heliograph.storage.columnar.damage import FAIL, ON_DAMAGE
from heliograph.storage.columnar.inspection import database_facts, structure_facts, tree_lines
from heliograph.storage.columnar.node_databases import databases_path
from heliograph.storage.columnar.secondary import database_directories, reading
from heliograph.storage.errors import StorageError, UnknownDatabaseError
from heliograph.storage.offload.now import offload_due, offload_now
from heliograph.storage.repair.check import CheckReport, check_database
from heliograph.storage.repair.message_database import RepairReport, repair_database
from heliograph.storage.repair.record_database import check_state, repair_state, state_directories
from heliograph.storage.topic_filter import TopicFilter

_DATABASE: Final = "messages"

Facts = Mapping[str, object]


def add_parser(subparsers: Actions) -> None:
    """Add `storage` and its actions to the command line."""
    parser = subparsers.add_parser(
        "storage",
        help="show, check and mend stored messages",
        description="Show what is stored in a node's data directory, and check or mend it. The node may be running, "
        "except for `check --repair`.",
    )
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    add_action(actions, _ls, "ls", "list the databases")
    _add(actions, _info, "info", "say what is in a database")
    lts = _add(actions, _lts, "lts", "print the learned topic structure")
    lts.add_argument("--shard", type=int, metavar="N", help="only this shard")
    lts.add_argument("--generation", type=int, metavar="N", help="only this generation")
    check = _add(
        actions,
        _check,
        "check",
        "read everything and name what is damaged",
        epilog="Exit code 0: nothing is damaged, or all that was damaged was mended; 1: something is.",
    )
    check.add_argument(
        "--repair",
        action="store_true",
        help="write what can be read into a new database and put it in the place of the damaged one, which is kept "
        "beside it; the node must be stopped",
    )
    _add_moves(actions)


def _add_moves(actions: Actions) -> None:
    """Add what takes generations elsewhere."""
    export = _add(actions, _export, "export", "write generations as Parquet")
    offload = _add(actions, _offload, "offload", "move closed generations to Parquet files elsewhere")
    for parser in (export, offload):
        parser.add_argument(
            "--to", metavar="TARGET", required=True, help="a directory, or a URI such as s3://bucket/path"
        )
    export.add_argument(
        "--topic", metavar="FILTER", action="append", default=[], help="only messages of this topic filter; repeatable"
    )
    export.add_argument("--current", action="store_true", help="also what is still being written, as far as it is")
    export.add_argument(
        "--on-damage", choices=ON_DAMAGE, default=FAIL, help=f"what to do about damaged messages (default {FAIL})"
    )
    offload.add_argument("--dry-run", action="store_true", help="only say what would be done")


def run(args: argparse.Namespace) -> int:
    """Carry out an action; the exit code."""
    act: Callable[[argparse.Namespace, Path], int] = args.act
    return run_in_data_dir(args, lambda data_dir: act(args, data_dir))


def _add(
    actions: Actions,
    act: Callable[[argparse.Namespace, Path], int],
    name: str,
    summary: str,
    epilog: str | None = None,
) -> argparse.ArgumentParser:
    parser = add_action(actions, act, name, summary, epilog)
    parser.add_argument("database", nargs="?", default=_DATABASE, metavar="DATABASE", help=f"default {_DATABASE}")
    return parser


def _ls(args: argparse.Namespace, data_dir: Path) -> int:
    """List the databases and how much is in each."""
    path = databases_path(data_dir)
    if not path.is_dir():
        raise UnknownDatabaseError("nothing was stored there", database="", path=path)
    found = [_summary(data_dir, name) for name in database_directories(path)]
    if args.json:
        _print_json(found)
    else:
        for facts in found:
            print(f"{facts['database']}  {facts['problem']}" if "problem" in facts else _summary_line(facts))
    return 1 if any("problem" in facts for facts in found) else 0


def _summary(data_dir: Path, name: str) -> Facts:
    try:
        with reading(data_dir, name) as (rocks, catalog):
            facts = database_facts(rocks, catalog)
    except StorageError as error:
        return {"database": name, "problem": f"[{error.code}] {error}"}
    numbers = {one.info.number for one in catalog.generations()}
    return {**{key: value for key, value in facts.items() if key != "generations"}, "generations": len(numbers)}


def _summary_line(facts: Facts) -> str:
    return (
        f"{facts['database']}  {_count(facts['messages'])} messages, {_size(facts['message_bytes'])}, "
        f"{_size(facts['disk_bytes'])} on disk, {facts['shards']} shards, {facts['generations']} generations, "
        f"last commit {_time(facts['last'])}"
    )


def _info(args: argparse.Namespace, data_dir: Path) -> int:
    """Say what is in a database: shards, generations, totals."""
    with reading(data_dir, args.database) as (rocks, catalog):
        facts = database_facts(rocks, catalog)
    if args.json:
        _print_json(facts)
        return 0
    generations = facts["generations"]
    assert isinstance(generations, list)
    print(_summary_line({**facts, "generations": len({one["generation"] for one in generations})}))
    for one in generations:
        until = "now" if one["until"] is None else _time(one["until"])
        since = "the beginning" if not one["since"] else _time(one["since"])
        print(
            f"  shard {one['shard']}, generation {one['generation']} ({one['layout']} {one['layout_version']}), "
            f"{since} to {until}: {one['streams']} streams, {_count(one['messages'])} messages, "
            f"{_size(one['message_bytes'])}{_offloaded(one['offloaded'])}"
        )
    return 0


def _offloaded(facts: Facts | None) -> str:
    if facts is None:
        return ""
    return f", {facts['state']} to {facts['target']}: {facts['files']} files, {_size(facts['bytes'])}"


def _lts(args: argparse.Namespace, data_dir: Path) -> int:
    """Print the topic structure that was learned, as a tree; `+` stands for a level that varies. Each leaf is a
    stream.
    """
    with reading(data_dir, args.database) as (rocks, catalog):
        facts = structure_facts(rocks, catalog, args.shard, args.generation)
    if args.json:
        _print_json(facts)
        return 0
    for one in facts:
        assert isinstance(one, dict)
        print(f"shard {one['shard']}, generation {one['generation']}, thresholds {one['wildcard_thresholds']}")
        streams = [
            (stream["topics"], f"[{stream['stream']}: {_count(stream['messages'])} messages]")
            for stream in one["streams"]
        ]
        print("".join(f"  {line}\n" for line in tree_lines(streams)), end="")
    return 0


def _check(args: argparse.Namespace, data_dir: Path) -> int:
    """Read every block of a database, compare its checksum, and name what is damaged with its stream and time. Of
    `sessions`, `shared_groups`, `delayed` and `retained`, read every record.
    """
    os.umask(0o077)  # as the node has it
    if args.database in state_directories(data_dir):
        return _check_state(args, data_dir)
    if args.repair:
        return _repair(args, data_dir)
    with reading(data_dir, args.database) as (rocks, catalog):
        report = check_database(rocks, catalog)
    if args.json:
        _print_json(report.to_json())
    else:
        _print_check(report)
    return 1 if report.is_damaged else 0


def _check_state(args: argparse.Namespace, data_dir: Path) -> int:
    from heliograph.node.state_records import validator  # needs the whole broker, as only this does

    act = repair_state if args.repair else check_state
    report = act(data_dir, args.database, validator(args.database))
    if args.json:
        _print_json(report.to_json())
    else:
        for problem in report.problems:
            print(problem)
        print(f"{report.database}: {_count(report.records)} records read, {_verdict(report.is_damaged)}")
    is_mended = report.kept is not None or report.begins_anew
    if args.repair and not args.json:
        print(_outcome(f"{_count(report.records)} records", report.kept, begins_anew=report.begins_anew))
    return 1 if report.is_damaged and not is_mended else 0


def _outcome(amount: str, kept: Path | None, *, begins_anew: bool) -> str:
    """What a repair did."""
    if begins_anew:
        return "nothing could be brought back: the next start makes an empty database"
    if kept is None:
        return "there was nothing to mend"
    return f"mended: {amount}; what was there before is kept in {kept}"


def _verdict(is_damaged: bool) -> str:
    return "damaged" if is_damaged else "whole"


def _print_check(report: CheckReport) -> None:
    for damage in report.damages:
        lost = "an unknown number of" if damage.messages is None else _count(damage.messages)
        between = f"{_time(damage.since)} to {_time(damage.until)}"
        print(f"shard {damage.stream.shard}, stream {damage.stream}, {between}: {damage.problem}; {lost} messages lost")
    for problem in report.problems:
        print(problem)
    amount = f"{_count(report.messages)} messages in {_count(report.blocks)} blocks"
    print(f"{report.database}: {amount} read, {_verdict(report.is_damaged)}")


def _repair(args: argparse.Namespace, data_dir: Path) -> int:
    report: RepairReport = repair_database(data_dir, args.database)
    if args.json:
        _print_json(report.to_json())
        return 0
    _print_check(report.found)
    print(_outcome(f"{_count(report.messages)} messages", report.kept, begins_anew=report.begins_anew))
    return 0


def _export(args: argparse.Namespace, data_dir: Path) -> int:
    """Write closed generations as Parquet files, partitioned by database, shard and day. What was exported before is
    left out.
    """
    from heliograph.storage.offload.blocks import OffloadedBlocks
    from heliograph.storage.reader.export import (
        ExportOptions,
        export_database,
        open_target,
    )  # needs pyarrow, as only this and what was offloaded do

    topics = tuple(TopicFilter(text, args.database) for text in args.topic)
    target = open_target(args.to)
    options = ExportOptions(topics, args.current, args.on_damage, OffloadedBlocks(data_dir).fetch)
    with reading(data_dir, args.database) as (rocks, catalog):
        report = export_database(rocks, catalog, target, options)
    if args.json:
        _print_json(asdict(report))
        return 0
    print(
        f"{_count(report.messages)} messages of {report.generations} generations in {report.files} files; "
        f"{report.known_generations} generations had been exported before"
    )
    if report.damages:
        print(f"{report.damages} damaged places were left out; see `heliograph storage check`")
    return 0


def _offload(args: argparse.Namespace, data_dir: Path) -> int:
    """Write all closed generations as Parquet files and take them out of the database, which finds them there from then
    on. The node must be stopped; a running one does so by itself where `offload` is enabled.
    """
    os.umask(0o077)
    target = args.to if "://" in args.to else str(Path(args.to).absolute())
    due = offload_due(data_dir, args.database)
    report = due if args.dry_run else offload_now(data_dir, args.database, target)
    if args.json:
        _print_json(asdict(report))
        return 0
    amount = f"{report.generations} generations with {_count(report.messages)} messages, {_size(report.message_bytes)}"
    print(f"{amount}, would be offloaded" if args.dry_run else f"{amount}, were offloaded to {target}")
    return 0


def _print_json(value: object) -> None:
    print(json.dumps(value, indent=2))


def _count(value: object) -> str:
    return f"{value:,}" if isinstance(value, int) else str(value)


def _size(value: object) -> str:
    amount = float(value) if isinstance(value, int) else 0.0
    for unit in ("B", "KiB", "MiB"):
        if amount < 1024:
            return f"{amount:.0f} {unit}" if unit == "B" else f"{amount:.1f} {unit}"
        amount /= 1024
    return f"{amount:.1f} GiB"


def _time(value: object) -> str:
    if not isinstance(value, int):
        return "never"
    try:
        return datetime.fromtimestamp(value / 1_000_000, UTC).isoformat(timespec="milliseconds")
    except (ValueError, OverflowError, OSError):
        return f"{value} µs"
