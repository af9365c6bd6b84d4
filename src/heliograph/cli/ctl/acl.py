"""`ctl acl`: the rules of the built-in database."""

import argparse
import sys
from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, Final

import msgspec

from heliograph.cli.ctl.asking import add_command, add_group, answer_of, asked
from heliograph.cli.ctl.printing import print_done, print_json, print_rows, text_of
from heliograph.cli.output import counted
from heliograph.cli.usage import Actions, UsageError
from heliograph.control.proto_v1 import acl as proto
from heliograph.rpc.client import RpcClient

_KINDS: Final = ("clientid", "username", "all")
_BATCH: Final = 200  # client ids and user names in one request
_RULE: Final = (
    "A RULE is 'PERMISSION ACTION TOPIC', with options before the topic: allow or deny; publish, subscribe or all; "
    "qos=0,1 or retain=true or another field of a rule object, as ipaddr=10.0.0.0/8. Placeholders such as ${clientid} "
    "may stand in the topic (quote it for the shell), and 'eq TOPIC' takes it literally. A client id is what the "
    "client says, unless mqtt.use_username_as_clientid or a precondition ties it to the user name. A RULE may also be "
    "a rule object as JSON."
)
_ASKED: Final = (
    "note: authorization.sources has no built_in_database that is enabled, so these rules are not asked; "
    "`heliograph ctl authz add 'type = built_in_database'` adds it"
)
_DENIALS: Final = (
    "note: the file denies topics that its other lines may allow with a wildcard; with authorization.check_deliveries "
    "= true messages of those topics do not reach subscriptions with wildcards, as with mosquitto"
)


def add_parser(actions: Actions) -> None:
    """Add `acl` and its commands."""
    group = add_group(
        actions,
        "acl",
        "list, set and remove built-in rules",
        "The rules of the built-in database: what clients may do, by client id, user name, or all. The source "
        "built_in_database of authorization.sources asks them: those of the client id first, then of the user name, "
        "then of all; the first that matches decides.",
        "heliograph ctl acl add username alice 'allow publish home/alice/#'",
        "heliograph ctl authz explain phone-7 publish home/alice/door",
    )
    _add_showing(group)
    _add_changing(group)
    _add_files(group)


def _add_showing(group: Actions) -> None:
    listing = add_command(
        group, _list, "list", "list rules", "heliograph ctl acl list", "heliograph ctl acl list clientid --like sensor-"
    )
    listing.add_argument("kind", metavar="KIND", nargs="?", default="", choices=("", *_KINDS), help=", ".join(_KINDS))
    listing.add_argument("--like", metavar="TEXT", default="", help="only client ids and user names that hold TEXT")
    listing.add_argument("--limit", metavar="N", type=int, default=0, help="of at most so many of them; 0: all")
    show = add_command(group, _show, "show", "show the rules of one", "heliograph ctl acl show all")
    _add_owner(show)


def _add_changing(group: Actions) -> None:
    set_ = add_command(
        group,
        _change,
        "set",
        "set the rules of one",
        "heliograph ctl acl set username alice 'allow all home/alice/#' 'deny all #'",
        "heliograph ctl acl set all 'deny subscribe eq #' 'allow publish qos=0,1 up/${clientid}/#'",
        description=f"Give a client id, a user name, or all clients these rules and no others. {_RULE}",
    )
    add = add_command(
        group,
        _change,
        "add",
        "add rules to those of one",
        "heliograph ctl acl add clientid sensor-17 'allow publish weather/#'",
        description=f"Add rules behind those that a client id, a user name, or all clients have. {_RULE}",
    )
    add.add_argument("--front", action="store_true", help="before those that are there, so that they decide first")
    for parser in (set_, add):
        _add_owner(parser, rules=True)
    set_.set_defaults(front=None)
    delete = add_command(
        group,
        _delete,
        "delete",
        "remove rules of one",
        "heliograph ctl acl delete clientid sensor-17",
        "heliograph ctl acl delete all --rule 2",
    )
    _add_owner(delete)
    delete.add_argument(
        "--rule", metavar="N", type=int, default=0, help="only the rule of this number, as `list` has it"
    )
    clear = add_command(group, _clear, "clear", "remove all rules", "heliograph ctl acl clear clientid")
    clear.add_argument("kind", metavar="KIND", nargs="?", default="", choices=("", *_KINDS), help=", ".join(_KINDS))


def _add_files(group: Actions) -> None:
    read = add_command(
        group,
        _import,
        "import",
        "set the rules of a file",
        "heliograph ctl acl import rules.json",
        "heliograph ctl acl import /etc/mosquitto/acl --format mosquitto",
    )
    read.add_argument(
        "--format", choices=("json", "mosquitto"), default="json", help="what the file is (default: json)"
    )
    read.add_argument("file", metavar="FILE", help="the file, or - for standard input")
    add_command(group, _export, "export", "write all rules as JSON", "heliograph ctl acl export > rules.json")


def _add_owner(parser: argparse.ArgumentParser, *, rules: bool = False) -> None:
    parser.add_argument("kind", metavar="KIND", choices=_KINDS, help="whose: clientid, username, or all")
    if rules:
        help_ = "the client id or user name (none for all), then the rules, each in quotes"
        parser.add_argument("words", metavar="NAME, RULE", nargs="+", help=help_)
    else:
        parser.add_argument("words", metavar="NAME", nargs="*", help="the client id or user name (none for all)")


def _list(args: argparse.Namespace) -> int:
    """List rules, a line for each."""
    if args.limit < 0:
        raise UsageError(f"--limit is {args.limit}; 0 or more is valid")
    with asked(args) as node:
        _print(node.rows(proto.ACL_LIST(proto.AclWanted(args.kind, args.like, args.limit))), args.json)
    return 0


def _show(args: argparse.Namespace) -> int:
    """Show the rules of one."""
    name = _only_name(args)
    _print([answer_of(args, proto.ACL_SHOW(proto.AclOwner(args.kind, name)))], args.json)
    return 0


def _change(args: argparse.Namespace) -> int:
    name, texts = ("", args.words) if args.kind == "all" else (args.words[0], args.words[1:])
    if not texts:
        raise UsageError(f"no rule is given; for example: 'allow publish weather/#'. {_RULE}")
    rules = [rule_of(text) for text in texts]
    mode = "replace" if args.front is None else "front" if args.front else "rear"
    done = answer_of(args, proto.ACL_CHANGE(proto.AclChange([proto.AclRules(args.kind, name, rules)], mode)))
    code = _print_done(done, f"{_whose(args.kind, name)} {_have(args.kind)} {_rules(done.rules)}", args.json)
    _warn_of_unknown(rules)
    return code


def _warn_of_unknown(rules: Sequence[dict[str, Any]]) -> None:
    from heliograph.access.acl.topics import RuleTopic

    topics = [
        topic for rule in rules for topic in (rule.get("topic"), *rule.get("topics", ())) if isinstance(topic, str)
    ]
    for name in dict.fromkeys(name for topic in topics for name in RuleTopic(topic).unknown):
        print(f"note: ${{{name}}} is no placeholder in the topic of a rule, so it stays as it is", file=sys.stderr)


def _delete(args: argparse.Namespace) -> int:
    """Remove the rules of a client id, a user name, or all clients; with --rule one of them."""
    name = _only_name(args)
    done = answer_of(args, proto.ACL_DELETE(proto.AclRemoval(args.kind, name, args.rule)))
    return print_done(done, f"{_whose(args.kind, name)} {_have(args.kind)} {_rules(done.rules)}", args.json)


def _clear(args: argparse.Namespace) -> int:
    """Remove all rules, or those of a kind."""
    done = answer_of(args, proto.ACL_CLEAR(proto.AclClearing(args.kind)))
    return print_done(done, f"all rules{f' of kind {args.kind}' if args.kind else ''} are removed", args.json)


def _import(args: argparse.Namespace) -> int:
    """Give each client id and user name of a file the rules that it has there, in the place of its own. The file is a
    JSON list of objects {clientid or username: NAME, rules: [..]}, without a name for all clients, as `export` writes
    it. With --format mosquitto it is an acl_file of mosquitto.
    """
    owners = list(_read_mosquitto(args.file) if args.format == "mosquitto" else _read(args.file))
    with asked(args) as node:
        done = _send(node, owners)
    whose = counted(done.owners, "client id or user name has", "client ids or user names have")
    code = _print_done(done, f"{whose} {_rules(done.rules)} of {args.file}", args.json)
    if args.format == "mosquitto" and any(map(_is_denial, chain(*(own.rules for own in owners)))):
        print(_DENIALS, file=sys.stderr)
    return code


def _is_denial(rule: dict[str, Any]) -> bool:
    """Whether it denies some topics, and not just what nothing allowed."""
    return rule["permission"] == "deny" and "#" not in rule["topics"]


def _send(node: RpcClient, owners: Sequence[proto.AclRules]) -> proto.AclChanged:
    done = proto.AclChanged(0, 0, True)
    for at in range(0, len(owners), _BATCH):
        one = node.ask(proto.ACL_CHANGE(proto.AclChange(list(owners[at : at + _BATCH]))))
        done = proto.AclChanged(done.owners + one.owners, done.rules + one.rules, one.is_asked)
    return done


def _export(args: argparse.Namespace) -> int:
    """Write all rules as JSON, for `import`."""
    with asked(args) as node:
        rows = node.rows(proto.ACL_LIST(proto.AclWanted()))
        objects = [{own.kind: own.name, "rules": own.rules} if own.name else {"rules": own.rules} for own in rows]
    sys.stdout.write(msgspec.json.format(msgspec.json.encode(objects), indent=2).decode() + "\n")
    return 0


def rule_of(text: str) -> dict[str, Any]:
    """The rule object that an argument means.

    Raises:
        UsageError: It is not one.
    """
    if text.lstrip().startswith("{"):
        try:
            return msgspec.json.decode(text, type=dict[str, Any])
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise UsageError(f"{text!r} is no JSON object: {error}") from None
    words = text.split(maxsplit=2)
    if len(words) < 3:
        raise UsageError(f"{text!r} is no rule such as 'allow publish weather/#'. {_RULE}")
    rule: dict[str, Any] = {"permission": words[0], "action": words[1]}
    left = words[2]
    while _is_option(left):
        option, _, left = left.partition(" ")
        name, _, value = option.partition("=")
        rule[name] = value
        left = left.lstrip()
    return rule | {"topic": left}


_OPTIONS: Final = (
    *("qos", "retain", "ipaddr", "username_re", "clientid_re", "zone", "zone_re", "listener", "listener_re"),
)


def _is_option(text: str) -> bool:
    name, sign, rest = text.partition("=")
    if not sign or " " not in rest:
        return False
    if name.isidentifier() and name not in _OPTIONS:
        raise UsageError(
            f"{name!r} is no field of a rule; {', '.join(_OPTIONS)} are valid before the topic. If {text!r} "
            "is a topic, give the rule as JSON"
        )
    return name in _OPTIONS


def _read_mosquitto(file: str) -> Iterator[proto.AclRules]:
    from heliograph.access.acl.errors import AclError
    from heliograph.access.acl.mosquitto import read_mosquitto_acl

    try:
        owners = read_mosquitto_acl(_bytes_of(file))
    except AclError as error:
        raise UsageError(f"{file}: {error}") from None
    for own in owners:
        yield proto.AclRules(own.kind, own.name, [dict(row) for row in own.rows])


def _bytes_of(file: str) -> bytes:
    try:
        return sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
    except OSError as error:
        why = error.strerror if isinstance(error, OSError) else error
        raise UsageError(f"{file} cannot be read: {why}") from error


def _read(file: str) -> Iterator[proto.AclRules]:
    try:
        objects = msgspec.json.decode(_bytes_of(file), type=list[dict[str, Any]])
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{file} is no JSON list of objects: {error}") from None
    for number, one in enumerate(objects, 1):
        kind = next((kind for kind in ("clientid", "username") if kind in one), "all")
        rules = one.get("rules")
        if not isinstance(rules, list) or not all(isinstance(rule, dict) for rule in rules):
            raise UsageError(f"{file}: object {number} has no list `rules` of rule objects")
        yield proto.AclRules(kind, str(one.get(kind, "")), rules)


def _print(owners: Any, as_json: bool) -> None:
    if as_json:
        for own in owners:
            print_json(own)
        return
    rows = (_Line(own.kind, own.name, number, rule) for own in owners for number, rule in enumerate(own.rules, 1))
    print_rows(rows, ("kind", "name", "rule", "permission", "action", "options", "topic"), as_json=False)


class _Line:
    """A rule as a line of the table."""

    def __init__(self, kind: str, name: str, number: int, rule: dict[str, Any]) -> None:
        self.kind = kind
        self.name = name
        self.rule = number
        self.permission = rule.get("permission")
        self.action = rule.get("action")
        self.topic = rule.get("topic") or ", ".join(map(str, rule.get("topics") or ()))
        shown = {key: value for key, value in rule.items() if key in _OPTIONS and value is not None}
        self.options = " ".join(f"{key}={_option_text(value)}" for key, value in shown.items())


def _option_text(value: object) -> str:
    if isinstance(value, list):
        return ",".join(map(str, value))
    return str(value).lower() if isinstance(value, bool) else str(value)


def _only_name(args: argparse.Namespace) -> str:
    words = args.words
    if args.kind == "all":
        if words:
            raise UsageError(f"`all` has no name; found {words[0]!r}")
        return ""
    if len(words) != 1:
        raise UsageError(f"give one {args.kind}; found {' '.join(words) or 'none'}")
    name: str = words[0]
    return name


def _print_done(done: proto.AclChanged, sentence: str, as_json: bool) -> int:
    print_done(done, sentence, as_json)
    if not done.is_asked:
        print(_ASKED, file=sys.stderr)
    return 0


def _whose(kind: str, name: str) -> str:
    return "all clients" if kind == "all" else f"{kind} {text_of(name)}"


def _have(kind: str) -> str:
    return "have" if kind == "all" else "has"


def _rules(count: int) -> str:
    return "no rules" if count == 0 else f"{count:,} rule{'s' if count > 1 else ''}"
