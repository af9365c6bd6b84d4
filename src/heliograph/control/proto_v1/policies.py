"""Validations and transformations: what is asked of them beyond their settings, and answers."""

import msgspec

from heliograph.control.proto_v1.messages import PublishProperties
from heliograph.rpc.asks import STATE, Ask
from heliograph.rpc.methods import Args


class TrialMessage(msgspec.Struct, frozen=True):
    """A message that a validation or a transformation is tried on.

    Attributes:
        properties: Its MQTT 5 properties; the user properties stand beside them.
    """

    topic: str
    payload: bytes = b""
    qos: int = 0
    retain: bool = False
    clientid: str = "dry_run"
    username: str | None = None
    user_properties: tuple[tuple[str, str], ...] = ()
    properties: PublishProperties | None = None


class PolicyTrial(Args, frozen=True):
    """A validation or transformation that is tried.

    Attributes:
        text: Its settings, in HOCON or JSON.
    """

    text: str
    message: TrialMessage


class MessageShown(msgspec.Struct, frozen=True):
    """What a message has become."""

    topic: str
    payload: bytes
    qos: int
    retain: bool
    user_properties: list[tuple[str, str]]


class CheckTried(msgspec.Struct, frozen=True):
    """What one check says of a message.

    Attributes:
        type: `sql`, `json`, `avro` or `protobuf`.
        fault: Why the message does not pass it; empty if it does.
    """

    type: str
    fault: str


class ValidationTried(msgspec.Struct, frozen=True):
    """What a validation says of a message.

    Attributes:
        fault: Why the message fails; empty if it passes.
        outcome: What the broker would do with it: `goes_on`, `dropped`, `disconnected`, or `not_checked`, since none
            of the topic filters matches.
        checks: What each check says on its own.
    """

    fault: str
    outcome: str
    checks: list[CheckTried]


VALIDATIONS_DRY_RUN = Ask("validations.dry_run", PolicyTrial, ValidationTried, STATE)
TRANSFORMATIONS_DRY_RUN = Ask("transformations.dry_run", PolicyTrial, MessageShown, STATE)
