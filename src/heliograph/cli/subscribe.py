"""`heliograph subscribe`: prints the messages of topic filters, with the options of mosquitto_sub."""

import argparse
import sys
import time
from datetime import datetime
from typing import Final

from heliograph.cli.client_options import add_connection, connect, run_client, seconds, topic_of_url, version_of, whole
from heliograph.cli.usage import Actions, UsageError, example_of
from heliograph.client.connection import FOREVER, ClientConnection
from heliograph.client.conversation import ReceivedMessage
from heliograph.client.errors import (
    EXIT_FAILED,
    EXIT_TIMED_OUT,
    BrokerUnreachableError,
    ClientError,
    DeniedError,
    LostError,
)
from heliograph.client.output import as_json, check_template, formatted
from heliograph.client.property_texts import CommandProperties
from heliograph.mqtt import packets as p
from heliograph.mqtt import reason_codes as rc
from heliograph.mqtt.properties import Properties
from heliograph.mqtt.topic import MAX_TOPIC_BYTES, subscription_fault, topic_matches
from heliograph.processes.backoff import Backoff

_AGAIN: Final = Backoff(first_s=1.0, longest_s=30.0)
# Reasons of a broker that has gone, or cannot take clients now; others are meant for this client.
_PASSING: Final = (rc.SERVER_SHUTTING_DOWN, rc.SERVER_BUSY, rc.SERVER_UNAVAILABLE)
_ONLY_V5: Final = ("no_local", "retain_as_published", "retain_handling")


def add_parser(subparsers: Actions) -> None:
    """Add `subscribe` to the command line."""
    parser = subparsers.add_parser(
        "subscribe",
        add_help=False,
        help="print messages, as mosquitto_sub does",
        description="Subscribe to topic filters and print what comes, with the options of mosquitto_sub, until Ctrl-C. "
        "A lost connection is made again, after pauses of up to 30 seconds, unless --no-reconnect is given. "
        "The exit code is 0 then; the reason code of a broker that refuses (of MQTT 3 its return code), 7 when the "
        "connection is lost for good, 27 at the end of -W or when the broker does not answer in time, 2 when the "
        "options make no sense, and 1 otherwise.",
        epilog=example_of(
            "heliograph subscribe -t 'weather/+/obs' -v",
            "heliograph subscribe -h broker.example.org -t '#' --json -C 10 -W 5",
            "heliograph subscribe -t 'old/#' --retained-only --remove-retained -W 2",
        ),
    )
    _add_subscription(parser)
    _add_output(parser)
    add_connection(parser)


def _add_subscription(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("subscription")
    group.add_argument("-t", "--topic", action="append", default=[], metavar="FILTER", help="may be repeated")
    group.add_argument("-U", "--unsubscribe", action="append", default=[], metavar="FILTER", help="end a subscription")
    group.add_argument("-q", "--qos", type=int, choices=(0, 1, 2), default=0, help="at most (default: 0)")
    group.add_argument("-E", "--exit-subscribed", action="store_true", help="end when the broker has acknowledged it")
    group.add_argument("--no-reconnect", action="store_true", help="end with exit code 7 when the connection is lost")
    group.add_argument("--no-local", action="store_true", help="nothing that this client publishes (MQTT 5)")
    group.add_argument("--retain-as-published", action="store_true", help="keep the retain flag of messages (MQTT 5)")
    group.add_argument(
        "--retain-handling",
        choices=("always", "new", "never"),
        help="when retained messages are sent: at every subscribing (default), at a new one, never (MQTT 5)",
    )


def _add_output(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("output")
    group.add_argument("-C", "--count", type=whole(10**12, 1), metavar="N", help="end after so many messages")
    group.add_argument("-W", "--wait", type=seconds, metavar="S", help="end after so many seconds, with exit code 27")
    form = group.add_mutually_exclusive_group()
    form.add_argument("-v", "--verbose", action="store_true", help="print the topic before each payload")
    form.add_argument("-F", "--format", metavar="TEXT", help="as mosquitto_sub's: %%t topic, %%p payload, ...")
    form.add_argument("--json", action="store_true", help="print each message as a line of JSON")
    group.add_argument("-N", "--no-newline", action="store_true", help="no end of line behind messages")
    group.add_argument("-T", "--filter-out", action="append", default=[], metavar="FILTER", help="topics not to print")
    group.add_argument("-R", "--no-retained", action="store_true", help="print no retained messages")
    group.add_argument(
        "--retained-only", action="store_true", help="print only retained messages, and end at the first other one"
    )
    group.add_argument("--remove-retained", action="store_true", help="delete retained messages that come (not -T)")


def run(args: argparse.Namespace) -> int:
    """Subscribe and print; the exit code."""
    return run_client(args, _subscribe, 0)


def _check(args: argparse.Namespace, properties: CommandProperties) -> None:
    if not args.topic and (topic := topic_of_url(args)) is not None:
        args.topic = [topic]
    if not args.topic and not args.unsubscribe:
        raise UsageError("-t is missing: what is to be subscribed to?")
    for topic_filter in (*args.topic, *args.unsubscribe, *args.filter_out):
        fault = subscription_fault(topic_filter, MAX_TOPIC_BYTES) if topic_filter else "it is empty"
        if fault is not None:
            raise UsageError(f'"{topic_filter}" is no topic filter: {fault}')
    if args.format is not None:
        check_template(args.format)
    given = [name for name in _ONLY_V5 if getattr(args, name)] + ([] if properties.is_empty else ["property"])
    if version_of(args) != p.V5 and given:
        raise UsageError(f"--{given[0].replace('_', '-')} needs MQTT 5: -V 5")


def _subscribe(args: argparse.Namespace) -> int:
    properties = CommandProperties(args.property)
    _check(args, properties)
    deadline = FOREVER if args.wait is None else time.monotonic() + args.wait
    printing, lost = _Printing(args), 0
    while True:
        try:
            with connect(args, "sub", properties) as connection:
                try:
                    _ask(connection, args, properties)
                    lost = 0
                    return 0 if args.exit_subscribed else printing.until(connection, deadline)
                finally:
                    connection.disconnect(rc.SUCCESS, properties.of("disconnect"))
        except ClientError as error:
            sys.stdout.buffer.flush()
            if args.no_reconnect or not printing.has_begun or not _passes(error):
                raise
            lost += 1
            pause_s = min(_AGAIN.pause_s(lost), deadline - time.monotonic())
            if pause_s <= 0:
                return EXIT_TIMED_OUT
            if not args.quiet:
                print(f"heliograph subscribe: [{error.code}] {error}; again in {pause_s:.0f} s", file=sys.stderr)
            time.sleep(pause_s)


def _passes(error: ClientError) -> bool:
    """Whether a connection that ended so may be made again."""
    if isinstance(error, DeniedError):
        return error.reason_code in _PASSING
    is_absent = isinstance(error, BrokerUnreachableError) and error.exit_code == EXIT_FAILED
    return is_absent or isinstance(error, LostError)


def _ask(connection: ClientConnection, args: argparse.Namespace, properties: CommandProperties) -> None:
    conversation = connection.conversation
    handling = ("always", "new", "never").index(args.retain_handling or "always")
    entries = [
        p.SubscribeEntry(topic_filter, args.qos, args.no_local, args.retain_as_published, handling)
        for topic_filter in args.topic
    ]
    if entries:
        conversation.subscribe(entries, properties.of("subscribe"))
    if args.unsubscribe:
        conversation.unsubscribe(args.unsubscribe, properties.of("unsubscribe"))
    while conversation.unanswered_count or conversation.answers:
        answer = connection.answer()
        if answer.kind == p.SUBSCRIBE:
            _heed_refusals(args.topic, answer.codes, answer.properties)


def _heed_refusals(topic_filters: list[str], codes: tuple[int, ...], properties: Properties | None) -> None:
    """Tell what the broker refused; if that is everything, there is nothing to wait for."""
    refused = [
        DeniedError(f'the broker refused the subscription to "{topic_filter}"', code, properties, p.V5)
        for topic_filter, code in zip(topic_filters, codes, strict=False)
        if code >= rc.UNSPECIFIED_ERROR
    ]
    if len(refused) == len(topic_filters):
        raise refused[0]
    for error in refused:
        print(f"heliograph subscribe: [{error.code}] {error}", file=sys.stderr)


class _Printing:
    """Prints what comes; owned by one run of the command, over all its connections."""

    def __init__(self, args: argparse.Namespace) -> None:
        self._args = args
        self._count = 0
        self.has_begun = False

    def until(self, connection: ClientConnection, deadline: float) -> int:
        """Print until the count is reached (0) or the time has come (27)."""
        self.has_begun = True
        while True:
            messages = connection.messages(deadline)
            if not messages:
                self._settle(connection)
                return EXIT_TIMED_OUT
            for message in messages:
                if self._is_last(connection, message):
                    self._settle(connection)
                    return 0
            sys.stdout.buffer.flush()

    def _is_last(self, connection: ClientConnection, message: ReceivedMessage) -> bool:
        """Print a message if it is wanted; whether nothing more is."""
        args, is_retained = self._args, bool(message.packet.retain)
        if args.retained_only and not is_retained:
            return True
        if (is_retained and args.no_retained) or any(topic_matches(message.topic, each) for each in args.filter_out):
            return False
        if args.remove_retained and is_retained:
            connection.conversation.publish(message.topic, b"", 1, True, Properties())
        sys.stdout.buffer.write(self._text(message) + (b"" if args.no_newline else b"\n"))
        self._count += 1
        return args.count is not None and self._count >= args.count

    def _text(self, message: ReceivedMessage) -> bytes:
        now = datetime.now().astimezone()
        if self._args.json:
            return as_json(message, now).encode()
        if self._args.format is not None:
            return formatted(message, self._args.format, now)
        if self._args.verbose:
            return message.topic.encode() + b" " + message.packet.payload
        return message.packet.payload

    def _settle(self, connection: ClientConnection) -> None:
        """Bring the output out, and wait until what was removed is acknowledged."""
        sys.stdout.buffer.flush()
        while connection.conversation.unanswered_count:
            connection.answer()
