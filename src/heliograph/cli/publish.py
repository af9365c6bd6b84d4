"""`heliograph publish`: publishes one message, or each line of the input, with the options of mosquitto_pub."""

import argparse
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from heliograph.cli.client_options import (
    add_connection,
    check_topic,
    connect,
    run_client,
    seconds,
    topic_of_url,
    version_of,
    whole,
)
from heliograph.cli.usage import Actions, UsageError, example_of
from heliograph.client.connection import FOREVER, ClientConnection
from heliograph.client.errors import DeniedError
from heliograph.client.property_texts import CommandProperties
from heliograph.mqtt import packets as p
from heliograph.mqtt import reason_codes as rc

_INTERRUPTED: Final = 130
_READ_BYTES: Final = 65_536
_HELD_BACK_MAX: Final = 1000


def add_parser(subparsers: Actions) -> None:
    """Add `publish` to the command line."""
    parser = subparsers.add_parser(
        "publish",
        add_help=False,
        help="publish messages, as mosquitto_pub does",
        description="Publish one message, or each line of standard input, with the options of mosquitto_pub. At QoS 1 "
        "and 2 the command ends when the broker has acknowledged everything. The exit code is 0 then; the reason code "
        "of a broker that refuses (of MQTT 3 its return code), 7 when the connection is lost, 27 when it does not "
        "answer in time, 2 when the options make no sense, and 1 otherwise.",
        epilog=example_of(
            "heliograph publish -t weather/jfk/obs -m '{\"temp\": 21}' -q 1",
            "tail -f readings.log | heliograph publish -h broker.example.org -t readings -l",
            "heliograph publish -L wss://user@broker.example.org/mqtt --cafile ca.pem -t state -r -m on",
        ),
    )
    group = parser.add_argument_group("message")
    group.add_argument("-t", "--topic", help="topic to publish to")
    source = group.add_mutually_exclusive_group()
    source.add_argument("-m", "--message", metavar="TEXT", help="its payload")
    source.add_argument("-f", "--file", type=Path, help="the payload is what the file holds")
    source.add_argument("-l", "--stdin-line", action="store_true", help="each line of standard input is a message")
    source.add_argument("-n", "--null-message", action="store_true", help="an empty payload")
    source.add_argument("-s", "--stdin-file", action="store_true", help="the payload is all of standard input")
    group.add_argument("-q", "--qos", type=int, choices=(0, 1, 2), default=0, help="(default: 0)")
    group.add_argument("-r", "--retain", action="store_true", help="the broker keeps it for later subscribers")
    group.add_argument("--repeat", type=whole(10**9, 1), default=1, metavar="N", help="publish it so often (not -l)")
    group.add_argument("--repeat-delay", type=seconds, default=0.0, metavar="S", help="between two of them")
    add_connection(parser)


def run(args: argparse.Namespace) -> int:
    """Publish; the exit code."""
    return run_client(args, _publish, _INTERRUPTED)


def _publish(args: argparse.Namespace) -> int:
    properties = CommandProperties(args.property)
    if version_of(args) != p.V5 and not properties.is_empty:
        raise UsageError("-D needs MQTT 5: -V 5")
    topic = args.topic if args.topic is not None else topic_of_url(args)
    if topic is None:
        raise UsageError("-t is missing: which topic is to be published to?")
    check_topic(topic)
    message = _message(args)
    with connect(args, "pub", properties) as connection:
        try:
            for payload in _lines(connection) if message is None else _repeated(connection, message, args):
                connection.conversation.publish(topic, payload, args.qos, args.retain, properties.of("publish"))
                _heed_answers(connection, topic)
            while connection.conversation.unanswered_count or connection.conversation.answers:
                _heed_answer(connection, topic)
        except DeniedError:
            connection.disconnect(rc.SUCCESS, properties.of("disconnect"))
            raise
        except KeyboardInterrupt:
            connection.disconnect(rc.SUCCESS, properties.of("disconnect"))
            raise
        connection.disconnect(rc.SUCCESS, properties.of("disconnect"))
    return 0


def _message(args: argparse.Namespace) -> bytes | None:
    """The one payload; None where each line of the input is a message."""
    if args.stdin_line:
        return None
    if args.message is not None:
        return os.fsencode(args.message)
    if args.null_message:
        return b""
    if args.stdin_file:
        return sys.stdin.buffer.read()
    if args.file is None:
        raise UsageError("what is to be published? Give one of -m, -f, -l, -n and -s")
    try:
        content: bytes = args.file.read_bytes()
    except OSError as error:
        raise UsageError(f"the file {args.file} cannot be read: {error.strerror}") from None
    return content


def _repeated(connection: ClientConnection, message: bytes, args: argparse.Namespace) -> Iterator[bytes]:
    for number in range(args.repeat):
        if number and args.repeat_delay:
            due = time.monotonic() + args.repeat_delay
            while time.monotonic() < due:
                connection.wait(due)
        yield message


def _lines(connection: ClientConnection) -> Iterator[bytes]:
    """Lines of standard input, without their ends; the connection is kept alive meanwhile."""
    file, rest = sys.stdin.fileno(), b""
    while True:
        while not connection.wait(FOREVER, file):
            pass
        data = os.read(file, _READ_BYTES)
        if not data:
            break
        *lines, rest = (rest + data).split(b"\n")
        yield from (line.removesuffix(b"\r") for line in lines)
    if rest:
        yield rest


def _heed_answers(connection: ClientConnection, topic: str) -> None:
    """Look at what the broker has answered, and wait for it while too much is held back."""
    connection.flush()
    while connection.conversation.answers or connection.conversation.held_back_count > _HELD_BACK_MAX:
        _heed_answer(connection, topic)


def _heed_answer(connection: ClientConnection, topic: str) -> None:
    answer = connection.answer()
    for code in answer.codes:
        if code >= rc.UNSPECIFIED_ERROR:
            raise DeniedError(f'the broker refused the message to "{topic}"', code, answer.properties, p.V5)
