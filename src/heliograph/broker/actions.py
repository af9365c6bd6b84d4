"""What a client may want to do, and what is decided about it: the words of the hook point `client.authorize`."""

from typing import Final

from mypy_extensions import i64

PUBLISH: Final = "publish"
SUBSCRIBE: Final = "subscribe"
ALLOW: Final = "allow"
DENY: Final = "deny"
ACTIONS_COUNT: Final = 9


class Action:
    """Publishing at a QoS with or without the retain flag, or subscribing at a QoS; there are nine, made at import.

    Attributes:
        qos: Of the message, or the one that is asked for; `retain` is false for a subscription.
        number: 0 to 8, for tables.
    """

    def __init__(self, kind: str, qos: int, retain: bool, number: int) -> None:
        self.kind = kind
        self.qos = qos
        self.retain = retain
        self.number: i64 = number

    def __repr__(self) -> str:
        return f"Action({self.kind} at QoS {self.qos}{', retained' if self.retain else ''})"


_PUBLISHING: Final = [Action(PUBLISH, at // 2, at % 2 == 1, at) for at in range(6)]
_SUBSCRIBING: Final = [Action(SUBSCRIBE, qos, False, 6 + qos) for qos in range(3)]


def publish_action(qos: int, retain: bool) -> Action:
    return _PUBLISHING[2 * qos + (1 if retain else 0)]


def subscribe_action(qos: int) -> Action:
    return _SUBSCRIBING[qos]


def action_of(number: int) -> Action:
    return _PUBLISHING[number] if number < len(_PUBLISHING) else _SUBSCRIBING[number - len(_PUBLISHING)]


class Decision:
    """What a source of authorization says; one is made for each source, not for each message.

    Args:
        source: What decided: `file`, `built_in_database`, `mysql`, ..., `client_info`, `jwt`, `http`, `ldap`,
            `superuser`, `cache`, `default` (`authorization.no_match`), or the name that a plugin gives.
        rule: The rule that decided, for people; empty where that is not known.
        is_unsure: Whether a source that might have decided otherwise could not be asked. It holds as any other, but no
            subscription that a client has ends for it.
    """

    def __init__(self, is_allowed: bool, source: str, rule: str = "", is_unsure: bool = False) -> None:
        self.is_allowed = is_allowed
        self.source = source
        self.rule = rule
        self.is_unsure = is_unsure

    @property
    def result(self) -> str:
        return ALLOW if self.is_allowed else DENY

    def __repr__(self) -> str:
        return f"Decision({self.result} by {self.source}{f': {self.rule}' if self.rule else ''})"


ALLOWED_BY_DEFAULT: Final = Decision(True, "default")
DENIED_BY_DEFAULT: Final = Decision(False, "default")
ALLOWED_BY_PLUGIN: Final = Decision(True, "plugin")
DENIED_BY_PLUGIN: Final = Decision(False, "plugin")
ALLOWED_BY_CACHE: Final = Decision(True, "cache")
DENIED_BY_CACHE: Final = Decision(False, "cache")
SUPERUSER: Final = Decision(True, "superuser")
# Where nothing decides about events of clients (`mqtt.topic.is_client_event`).
CLOSED_BY_DEFAULT: Final = Decision(False, "default", "events of clients, which no rule allows")
FAILED_CHECK: Final = Decision(False, "default", "a callback raised, or did not answer in time", is_unsure=True)

# What the accumulator of `client.authorize` may be: a decision, or only `allow` or `deny`.
AuthzOutcome = Decision | str


def as_decision(outcome: object) -> Decision:
    """What a chain's outcome means: a decision, a bare word, or nothing that could be understood, which denies."""
    if isinstance(outcome, Decision):
        return outcome
    return ALLOWED_BY_PLUGIN if outcome == ALLOW else DENIED_BY_PLUGIN
