"""`ctl conf`: shows and changes the configuration of a running node."""

import argparse
import sys
from pathlib import Path
from typing import Final

from heliograph.cli.ctl.asking import add_command, add_group, answer_of, asked, print_list
from heliograph.cli.ctl.printing import TableColumn, print_json, print_rows, text_of
from heliograph.cli.ctl.times import time_of
from heliograph.cli.usage import Actions, UsageError
from heliograph.control.proto_v1 import conf as proto

_CHANGE = "The node's file, the environment and the command line win over such a change: one that they hide is refused."

# What `conf show --json` prints of a setting.
_SHOWN: Final = ("path", "value", "origin", "how", "inherited_from")


def add_parser(actions: Actions) -> None:
    """Add `conf` and its actions."""
    within = add_group(
        actions,
        "conf",
        "show and change the configuration of the node",
        "Show and change the configuration of a running node. A change is made as a whole or not at all, and holds "
        "after the next start too; docs/live_configuration.md says more.",
        "heliograph ctl conf set mqtt.max_inflight=64 --confirm 60",
        "heliograph ctl conf confirm",
    )
    _add_showing(within)
    _add_changing(within)
    _add_revisions(within)


def _add_showing(within: Actions) -> None:
    show = add_command(
        within, _show, "show", "print what holds, defaults included", "heliograph ctl conf show mqtt --origins"
    )
    show.add_argument("path", metavar="PATH", nargs="?", default="", help="a setting or a group, such as mqtt (all)")
    show.add_argument("--origins", action="store_true", help="tell what set each value")
    add_command(within, _keys, "show_keys", "list the roots")


def _add_changing(within: Actions) -> None:
    set_ = add_command(
        within,
        _change,
        "set",
        "set single values",
        "heliograph ctl conf set mqtt.max_inflight=64 log.console.level=debug",
        description=f"Set values; PATH=null unsets one, so that the layers below count. {_CHANGE}",
    )
    set_.add_argument(
        "values", metavar="PATH=VALUE", nargs="+", help="a setting, and its value as a file would have it"
    )
    load = add_command(
        within,
        _change,
        "load",
        "change what a file says",
        "heliograph ctl conf load changes.hocon --replace --comment 'new listeners'",
        description=f"Merge a HOCON file into what was changed before. {_CHANGE}",
    )
    _add_file(load, "file")
    plan = add_command(
        within,
        _plan,
        "plan",
        "print what a change would do",
        "heliograph ctl conf plan mqtt.max_inflight=64",
        "heliograph ctl conf plan --load changes.hocon",
    )
    plan.add_argument("values", metavar="PATH=VALUE", nargs="*", help="as for set")
    _add_file(plan, "--load")
    for one in (set_, load):
        one.add_argument("--force", action="store_true", help="also write what a higher layer hides")
        _add_terms(one)
    set_.set_defaults(file=None, replace=False)
    load.set_defaults(values=[])
    plan.set_defaults(revision=-1, confirm=0.0, comment="", force=False)
    add_command(within, _reload, "reload", "read all files again, certificates too, and apply what differs")
    add_command(within, _confirm, "confirm", "have a change stay that was made with --confirm")


def _add_revisions(within: Actions) -> None:
    add_command(within, _revisions, "revisions", "list the changes that were made")
    show = add_command(
        within, _show_revision, "show-revision", "print a revision", "heliograph ctl conf show-revision 3"
    )
    show.add_argument("number", metavar="N", type=int, help="its number")
    diff = add_command(
        within, _diff, "diff", "print what differs between two revisions", "heliograph ctl conf diff 3 5"
    )
    diff.add_argument("old", metavar="OLD", type=int, help="a revision")
    diff.add_argument("new", metavar="NEW", type=int, help="another one")
    rollback = add_command(
        within,
        _rollback,
        "rollback",
        "go back to a revision",
        "heliograph ctl conf rollback 3 --plan",
        "heliograph ctl conf rollback 3",
    )
    rollback.add_argument("number", metavar="N", type=int, help="the revision")
    rollback.add_argument("--plan", action="store_true", help="only print what it would do, as `conf plan`")
    _add_terms(rollback)


def _add_file(parser: argparse.ArgumentParser, name: str) -> None:
    parser.add_argument(name, metavar="FILE", help="a HOCON file, or - for standard input")
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--merge", dest="replace", action="store_false", help="merge it into what is there (the default)")
    how.add_argument("--replace", action="store_true", help="have each root of the file in the place of what was there")
    parser.set_defaults(replace=False)  # else the first of the two decides


def _add_terms(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--revision", metavar="N", type=int, default=-1, help="only if N is still the newest revision")
    parser.add_argument(
        "--confirm",
        metavar="SECONDS",
        type=float,
        default=0.0,
        help="go back unless `conf confirm` comes within that time",
    )
    parser.add_argument("--comment", metavar="TEXT", default="", help="why, for the list of revisions")


def _show(args: argparse.Namespace) -> int:
    """Print each setting and its value, with stars for secrets; --origins adds the layer and line that set it.

    What a zone does not say itself is printed with the setting that it is inherited from.
    """
    with asked(args) as node:
        for one in node.rows(proto.CONF_SHOW(proto.ConfShowArgs(args.path, inherited=True))):
            if args.json:
                print_json({name: getattr(one, name) for name in _SHOWN})
            else:
                notes = [f"inherited from {one.inherited_from}"] if one.inherited_from else []
                notes += [text_of(one.origin)] if args.origins else []
                print(f"{one.path} = {text_of(one.value)}" + (f"  # {', '.join(notes)}" if notes else ""))
    return 0


def _keys(args: argparse.Namespace) -> int:
    """List the roots of the configuration."""
    return print_list(args, proto.CONF_KEYS(), ("name", "description"))


def _change(args: argparse.Namespace) -> int:
    with asked(args) as node:
        return _print_outcome(node.ask(proto.CONF_CHANGE(_change_of(args))), args.json)


def _plan(args: argparse.Namespace) -> int:
    """Print what a change would do: old and new values, how each setting changes, what hides it. Nothing changes."""
    args.file = args.load
    if not args.values and args.file is None:
        raise UsageError("name PATH=VALUE, or a file with --load FILE")
    with asked(args) as node:
        outcome = node.ask(proto.CONF_PLAN(_change_of(args)))
    return _print_outcome(outcome, args.json, is_plan=True)


def _reload(args: argparse.Namespace) -> int:
    """Read all files again, certificates too, and apply what differs."""
    same = "no setting differs; files that settings name, such as certificates and rules, were read again"
    return _print_outcome(answer_of(args, proto.CONF_RELOAD()), args.json, same=same)


def _confirm(args: argparse.Namespace) -> int:
    """Keep a change that was made with --confirm."""
    outcome = answer_of(args, proto.CONF_CONFIRM())
    if args.json:
        return _print_outcome(outcome, as_json=True)
    print(f"revision {outcome.revision} stays")
    return 0


def _rollback(args: argparse.Namespace) -> int:
    """Apply an earlier revision again, as a new one. Secrets stay as they are; 0 is before all changes."""
    given = proto.ConfRollbackArgs(args.number, args.revision, args.confirm, args.comment)
    if args.plan:
        return _print_outcome(answer_of(args, proto.CONF_PLAN_ROLLBACK(given)), args.json, is_plan=True)
    return _print_outcome(answer_of(args, proto.CONF_ROLLBACK(given)), args.json)


def _revisions(args: argparse.Namespace) -> int:
    """List the revisions that are kept, the newest last."""
    columns = ("number", TableColumn("time", lambda one: _time(one.time)), "who", "origin", "comment")
    return print_list(args, proto.CONF_REVISIONS(), columns)


def _show_revision(args: argparse.Namespace) -> int:
    """Print the text of a revision, with stars for secrets."""
    found = answer_of(args, proto.CONF_REVISION(proto.ConfRevisionArgs(args.number)))
    if args.json:
        print_json(found)
        return 0
    print(f"# revision {found.number}, {_time(found.time)}, {text_of(found.who)} ({text_of(found.origin)})")
    print(f"# {text_of(found.comment)}\n# sha256 {found.digest}")
    sys.stdout.write(found.text)
    return 0


def _diff(args: argparse.Namespace) -> int:
    """Print each setting that two revisions do not have alike."""
    return print_list(args, proto.CONF_DIFF(proto.ConfDiffArgs(args.old, args.new)), ("path", "old", "new"))


def _change_of(args: argparse.Namespace) -> proto.ConfChangeArgs:
    values = []
    for one in args.values:
        path, sign, value = one.partition("=")
        if not sign or not path.strip():
            raise UsageError(f"found {one!r}, expected PATH=VALUE, as in mqtt.max_inflight=64")
        values.append((path.strip(), value.strip()))
    text = _text_of(args.file) if args.file is not None else ""
    return proto.ConfChangeArgs(
        text,
        "replace" if args.replace else "merge",
        tuple(values),
        args.file or "<change>",
        args.force,
        args.revision,
        args.confirm,
        args.comment,
    )


def _text_of(file: str) -> str:
    """The text of a file with what it includes, which the node cannot read in its place."""
    from heliograph.hocon.document import parse_file
    from heliograph.hocon.errors import HoconError
    from heliograph.hocon.writing import to_hocon

    try:
        text = sys.stdin.read() if file == "-" else Path(file).read_text("utf-8")
        return to_hocon(parse_file(file)) if "include" in text and file != "-" else text
    except OSError as error:
        raise UsageError(f"{file} cannot be read: {error.strerror}") from error
    except (UnicodeDecodeError, HoconError) as error:
        raise UsageError(f"{file} cannot be read: {error}") from error


def _print_outcome(
    outcome: proto.ConfOutcome, as_json: bool, *, is_plan: bool = False, same: str = "no setting differs"
) -> int:
    """The exit code too: 1 where a part of the node did not take it."""
    if as_json:
        print_json(outcome)
        return 1 if outcome.failed else 0
    if outcome.settings:
        columns = ["path", "old", "new", "how"]
        if any(one.shadowed_by for one in outcome.settings):
            columns.append("shadowed_by")
        print_rows(outcome.settings, columns, as_json=False)
    else:
        print(same)
    if outcome.restart:
        print(f"with the next start: {', '.join(outcome.restart)}")
    if outcome.confirm_until:
        print(f"on trial until {_time(outcome.confirm_until)}: `heliograph ctl conf confirm` has it stay")
    for part, why in outcome.failed.items():
        print(f"the part {part} did not take it: {why}; see the log", file=sys.stderr)
    if is_plan:
        print(f"revision {outcome.revision}, nothing is changed")
    else:
        print(f"revision {outcome.revision}" if outcome.is_new else f"no new revision; {outcome.revision} stays")
    return 1 if outcome.failed else 0


def _time(seconds: float) -> str:
    return time_of(int(seconds) * 1_000_000)
