"""`heliograph message`: what validations and transformations of a configuration make of a message, without a broker."""

import argparse
import os
from pathlib import Path
from typing import TYPE_CHECKING, Final

from heliograph.cli.usage import Actions, UsageError, fail

if TYPE_CHECKING:
    from heliograph.broker.hooks import Refusal
    from heliograph.broker.message import Message
    from heliograph.broker.pubsub import Broker
    from heliograph.config.settings import Config
    from heliograph.rules.environment import Environment
    from heliograph.rules.values import Value

_NODE: Final = 1


def add_parser(subparsers: Actions) -> None:
    """Add `message` to the command line."""
    parser = subparsers.add_parser(
        "message",
        help="try validations and transformations on a message",
        description="Try the schema validations and message transformations of a configuration on a message.",
    )
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    test = actions.add_parser(
        "test",
        help="what becomes of a message",
        description="Print as JSON what a message becomes before others see it; standard error tells what fails. The "
        "exit code is 1 if the message is dropped, or the configuration has mistakes.",
    )
    test.add_argument("--config", type=Path, required=True, metavar="FILE", help="the configuration")
    test.add_argument("--topic", required=True, help="where it is published to")
    test.add_argument("--payload", default="", help="as text; @FILE for the bytes of a file")
    test.add_argument("--qos", type=int, choices=(0, 1, 2), default=0, help="(default: 0)")
    test.add_argument("--retain", action="store_true", help="with the retain flag")
    test.add_argument("--clientid", default="client", help="the publisher (default: %(default)s)")
    test.add_argument("--username", help="the publisher's user name (default: none)")
    test.add_argument("--user-property", action="append", default=[], metavar="NAME=TEXT", help="any number of them")


def run(args: argparse.Namespace) -> int:
    """Try the message; the exit code."""
    from heliograph.broker.message import Message
    from heliograph.config.loading import load_config
    from heliograph.message_policies.errors import MessagePolicyError
    from heliograph.message_policies.faults import policy_faults
    from heliograph.outbound import Outbound
    from heliograph.rules import engine as engine  # what checks the rules of a configuration
    from heliograph.rules.json_text import encode_exactly
    from heliograph.rules.parts import make_environment
    from heliograph.rules.schemas.settings import SchemaSourceError
    from heliograph.settings.errors import ConfigError

    try:
        config = load_config(args.config, os.environ, checks=(policy_faults,))
        message = _message(args, config)
        outcome = _outcome(message, config, make_environment(config, Outbound(config.outbound)))
    except (ConfigError, MessagePolicyError, SchemaSourceError) as error:
        return fail("message", f"[{error.code}] {error}")
    except UsageError as error:
        return fail("message", str(error))
    print(encode_exactly(_shown(outcome)))
    return 0 if isinstance(outcome, Message) else 1


def _message(args: argparse.Namespace, config: "Config") -> "Message":
    import time

    from heliograph.broker.guid import IdSource
    from heliograph.broker.message import make_message
    from heliograph.config.settings import levels_max
    from heliograph.mqtt.properties import Properties, encode_properties
    from heliograph.mqtt.topic import topic_name_fault

    fault = topic_name_fault(args.topic, levels_max(config))
    if fault is not None:
        raise UsageError(f"--topic: {fault}")
    properties = Properties()
    for pair in args.user_property:
        name, equals, text = pair.partition("=")
        if not equals:
            raise UsageError(f"--user-property: found {pair!r}, expected NAME=TEXT")
        properties.user.append((name, text))
    return make_message(
        time.time_ns() // 1000,
        IdSource(_NODE, 1).next_low(),
        args.topic,
        _payload(args.payload),
        args.qos,
        args.retain,
        encode_properties(properties) if properties.user else b"",
        args.clientid,
        args.username,
    )


def _payload(text: str) -> bytes:
    if not text.startswith("@"):
        return text.encode(errors="surrogateescape")
    try:
        return Path(text[1:]).read_bytes()
    except OSError as error:
        raise UsageError(f"--payload: {text[1:]} cannot be read: {error.strerror}") from None


def _outcome(message: "Message", config: "Config", environment: "Environment") -> "Message | Refusal":
    import logging

    from heliograph.broker.hook_order import TRANSFORMATION, VALIDATION
    from heliograph.broker.hooks import Hooks
    from heliograph.broker.publishing import run_hooks
    from heliograph.message_policies.parts import NodeInfo
    from heliograph.message_policies.transformation import MessageTransformation
    from heliograph.message_policies.validation import SchemaValidation
    from heliograph.node.options import make_broker

    broker: Broker = make_broker(config, Hooks())
    node = NodeInfo(config.node.name, lambda clientid: None)
    logger = logging.Logger("message policies")
    logger.addHandler(logging.StreamHandler())
    validation = SchemaValidation(broker, environment, node, logger)
    transformation = MessageTransformation(broker, environment, node, logger)
    validation.replace(config.schema_validation.validations)
    transformation.replace(config.message_transformation.transformations)
    validation.start(VALIDATION)
    transformation.start(TRANSFORMATION)
    return run_hooks(broker, message)


def _shown(outcome: "Message | Refusal") -> "dict[str, Value]":
    from heliograph.broker.hooks import Refusal
    from heliograph.mqtt.reason_codes import name_of
    from heliograph.rules.values import string_of

    if isinstance(outcome, Refusal):
        code = name_of(outcome.code)
        return {"dropped": outcome.reason, "reason_code": code, "disconnects": outcome.disconnects}
    shown: dict[str, Value] = {
        "topic": outcome.topic,
        "payload": string_of(outcome.payload),
        "qos": int(outcome.qos),
        "retain": outcome.retain,
    }
    if outcome.property_bytes:
        shown["user_property"] = [{"key": name, "value": text} for name, text in outcome.properties.user]
    return shown
