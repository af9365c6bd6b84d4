"""`ctl subscriptions`: what the clients of a node are subscribed to."""

import argparse
from typing import Final

from heliograph.cli.ctl.asking import add_command, add_group, answer_of, print_list
from heliograph.cli.ctl.printing import print_done, text_of
from heliograph.cli.ctl.tables import add_table_options, listed_columns, print_table
from heliograph.cli.usage import Actions
from heliograph.control.proto_v1 import subscriptions as proto
from heliograph.control.proto_v1.clients import ClientId
from heliograph.rpc.asks import ListQuestion

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
        _list,
        "list",
        "list subscriptions of all clients",
        "heliograph ctl subscriptions list --topic 'plant/#'",
        "heliograph ctl subscriptions list --matches plant/1/temperature --sort clientid",
    )
    listing.add_argument("--clientid", metavar="ID", default="", help="of this client")
    listing.add_argument("--topic", metavar="FILTER", default="", help="to exactly this filter, as the client wrote it")
    listing.add_argument("--matches", metavar="TOPIC", default="", help="whose filter matches this topic name")
    within = "whose filter matches nothing that this filter does not match"
    listing.add_argument("--match-topic", metavar="FILTER", default="", help=within)
    listing.add_argument("--qos", metavar="QOS", type=int, choices=(0, 1, 2), help="at this QoS")
    add_table_options(listing, _COLUMNS)
    show = add_command(
        group, _show, "show", "show the subscriptions of a client", "heliograph ctl subscriptions show sensor-17"
    )
    add = add_command(
        group,
        _add,
        "add",
        "subscribe a client that is connected",
        "heliograph ctl subscriptions add sensor-17 'commands/sensor-17/#' 1",
    )
    delete = add_command(
        group,
        _delete,
        "del",
        "drop a subscription of a client",
        "heliograph ctl subscriptions del sensor-17 'commands/sensor-17/#'",
    )
    for parser in (show, add, delete):
        parser.add_argument("clientid", metavar="ID", help="the client id, as `clients list` shows it")
    for parser in (add, delete):
        parser.add_argument("topic", metavar="FILTER", help="the filter as a client writes it, `$share/...` too")
    add.add_argument("qos", metavar="QOS", type=int, choices=(0, 1, 2), help="0, 1 or 2")
    add.add_argument("--nl", action="store_true", help="no local: not what the client publishes itself")
    add.add_argument("--rap", action="store_true", help="retain as published")
    add.add_argument("--rh", metavar="N", type=int, choices=(0, 1, 2), default=0, help="retain handling: 0, 1 or 2")


def _list(args: argparse.Namespace) -> int:
    """List the subscriptions of all clients, those of sessions that are on the disk only among them."""

    def question(limit: int) -> ListQuestion[proto.SubscriptionRow]:
        wanted = proto.SubscriptionsWanted(
            args.clientid, args.topic, args.matches, limit, args.qos, within=args.match_topic
        )
        return proto.SUBSCRIPTIONS_LIST(wanted)

    return print_table(args, _COLUMNS, question)


def _show(args: argparse.Namespace) -> int:
    """Show the subscriptions of a client."""
    return print_list(args, proto.SUBSCRIPTIONS_SHOW(ClientId(args.clientid)), tuple(_COLUMNS))


def _add(args: argparse.Namespace) -> int:
    """Subscribe a client that is connected. The limits of its listener hold as for its own SUBSCRIBE; what it may do
    itself is not asked. Retained messages are sent to it.
    """
    wanted = proto.NewSubscription(args.clientid, args.topic, args.qos, args.nl, args.rap, args.rh)
    made = answer_of(args, proto.SUBSCRIPTIONS_ADD(wanted))
    return print_done(
        made, f"client {text_of(made.clientid)} is subscribed to {text_of(made.topic)} at QoS {made.qos}", args.json
    )


def _delete(args: argparse.Namespace) -> int:
    """Drop a subscription of a client, whether it is connected or away. The client is not notified."""
    dropped = answer_of(args, proto.SUBSCRIPTIONS_DEL(proto.SubscriptionName(args.clientid, args.topic)))
    return print_done(
        dropped, f"client {text_of(dropped.clientid)} is not subscribed to {text_of(dropped.topic)} any more", args.json
    )
