"""`ctl subscriptions`: what the clients of a node are subscribed to."""

import argparse
from typing import Final

from heliograph.cli.ctl.asking import add_command, add_group, asked
from heliograph.cli.ctl.printing import print_done, print_rows, text_of
from heliograph.cli.ctl.tables import add_table_options, listed_columns, sorted_rows, table_columns
from heliograph.cli.usage import Actions
from heliograph.control.proto_v1 import subscriptions as proto
from heliograph.control.proto_v1.clients import ClientId

_COLUMNS: Final = listed_columns(proto.SUBSCRIPTION)


def add_parser(actions: Actions) -> None:
    """Add `subscriptions` and its commands."""
    group = add_group(
        actions,
        "subscriptions",
        "list, show, add and delete subscriptions",
        "Subscriptions of clients, whether they are connected or away.",
        "heliograph ctl subscriptions list --matches plant/1/temperature",
    )
    listing = add_command(
        group,
        "list",
        "list subscriptions of all clients",
        "List the subscriptions of all clients, those of sessions that are on the disk only among them.",
        "heliograph ctl subscriptions list --topic 'plant/#'",
        "heliograph ctl subscriptions list --matches plant/1/temperature --sort clientid",
    )
    listing.add_argument("--clientid", metavar="ID", default="", help="of this client")
    listing.add_argument("--topic", metavar="FILTER", default="", help="to exactly this filter, as the client wrote it")
    listing.add_argument("--matches", metavar="TOPIC", default="", help="whose filter matches this topic name")
    add_table_options(listing, _COLUMNS)
    listing.set_defaults(act=_list)
    show = add_command(
        group,
        "show",
        "show the subscriptions of a client",
        "Show the subscriptions of a client.",
        "heliograph ctl subscriptions show sensor-17",
    )
    show.set_defaults(act=_show)
    add = add_command(
        group,
        "add",
        "subscribe a client that is connected",
        "Subscribe a client that is connected. The limits of its listener hold as for its own SUBSCRIBE; what it may "
        "do itself is not asked. Retained messages are sent to it.",
        "heliograph ctl subscriptions add sensor-17 'commands/sensor-17/#' 1",
    )
    add.set_defaults(act=_add)
    delete = add_command(
        group,
        "del",
        "drop a subscription of a client",
        "Drop a subscription of a client, whether it is connected or away. The client is not notified.",
        "heliograph ctl subscriptions del sensor-17 'commands/sensor-17/#'",
    )
    delete.set_defaults(act=_delete)
    for parser in (show, add, delete):
        parser.add_argument("clientid", metavar="ID", help="the client id, as `clients list` shows it")
    for parser in (add, delete):
        parser.add_argument("topic", metavar="FILTER", help="the filter as a client writes it, `$share/...` too")
    add.add_argument("qos", metavar="QOS", type=int, choices=(0, 1, 2), help="0, 1 or 2")
    add.add_argument("--nl", action="store_true", help="no local: not what the client publishes itself")
    add.add_argument("--rap", action="store_true", help="retain as published")
    add.add_argument("--rh", metavar="N", type=int, choices=(0, 1, 2), default=0, help="retain handling: 0, 1 or 2")


def _list(args: argparse.Namespace) -> int:
    columns = table_columns(args, _COLUMNS)
    limit = 0 if args.sort else args.limit
    wanted = proto.SubscriptionsWanted(args.clientid, args.topic, args.matches, limit)
    with asked(args) as node:
        rows = node.rows(proto.SUBSCRIPTIONS_LIST(wanted))
        print_rows(sorted_rows(rows, args, _COLUMNS), columns, args.json)
    return 0


def _show(args: argparse.Namespace) -> int:
    with asked(args) as node:
        rows = node.rows(proto.SUBSCRIPTIONS_SHOW(ClientId(args.clientid)))
        print_rows(rows, tuple(_COLUMNS), args.json)
    return 0


def _add(args: argparse.Namespace) -> int:
    wanted = proto.NewSubscription(args.clientid, args.topic, args.qos, args.nl, args.rap, args.rh)
    with asked(args) as node:
        made = node.ask(proto.SUBSCRIPTIONS_ADD(wanted))
    return print_done(
        made, f"client {text_of(made.clientid)} is subscribed to {text_of(made.topic)} at QoS {made.qos}", args.json
    )


def _delete(args: argparse.Namespace) -> int:
    with asked(args) as node:
        dropped = node.ask(proto.SUBSCRIPTIONS_DEL(proto.SubscriptionName(args.clientid, args.topic)))
    return print_done(
        dropped, f"client {text_of(dropped.clientid)} is not subscribed to {text_of(dropped.topic)} any more", args.json
    )
