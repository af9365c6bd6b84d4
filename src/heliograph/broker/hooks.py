"""Hook points: which there are, what a callback of each gets, and what its failure means. For authors of plugins.

A hook point is a place on the broker's way where callbacks run that others have put there. A callback gets the
arguments of its hook point and the accumulator, and answers as EMQX's callbacks do:

    OK                 go on              STOP               end the chain
    (OK, value)        go on with value   (STOP, value)      end the chain with value

Where the table says that it may wait, it may also answer with a `Pending`, which it resolves with one of these later.
The chain then stands, with the one client that it runs for, and afterwards goes on with the callbacks that are left.

A callback that raises is counted, reported to `on_failure`, and skipped, and so is one that does not answer in time.
What that means for the chain stands in the table. Callbacks run in the event loop, in the middle of a packet or of a
turn, and must not block.

The table is `HOOK_POINTS`, docs/hooks.md says the same in words, and a test holds the two together. How a chain runs is
in `hook_chain`.
"""

from collections.abc import Callable
from typing import Final

from heliograph.broker.actions import Action, AuthzOutcome, Decision
from heliograph.broker.authentication import AuthAttempt, AuthOutcome
from heliograph.broker.client import ClientInfo
from heliograph.broker.hook_chain import (
    CLOSED,
    CLOSED_UNLESS_DECIDED,
    FAILED,
    OK,
    OPEN,
    STOP,
    WAITS,
    Callback,
    DeferredAck,
    HookPoint,
    LateAnswerError,
    PendingChain,
    Refusal,
    RewriteOnly,
)
from heliograph.broker.message import Message
from heliograph.broker.pending import Pending
from heliograph.mqtt.packets import Connect, SubscribeEntry
from heliograph.mqtt.properties import Properties

__all__ = [
    "ALARM_ACTIVATED",
    "ALARM_DEACTIVATED",
    "CLIENT_AUTHENTICATE",
    "CLIENT_AUTHORIZE",
    "CLIENT_CHECK_AUTHN_COMPLETE",
    "CLIENT_CHECK_AUTHZ_COMPLETE",
    "CLIENT_CONNACK",
    "CLIENT_CONNECT",
    "CLIENT_CONNECTED",
    "CLIENT_DISCONNECTED",
    "CLIENT_SUBSCRIBE",
    "CLIENT_UNSUBSCRIBE",
    "CLOSED",
    "CLOSED_UNLESS_DECIDED",
    "CONFIG_CHANGED",
    "DELIVERY_COMPLETED",
    "DELIVERY_DROPPED",
    "FAILED",
    "HOOK_POINTS",
    "MESSAGE_ACKED",
    "MESSAGE_DELIVERED",
    "MESSAGE_DROPPED",
    "MESSAGE_PUBLISH",
    "MESSAGE_TRANSFORMATION_FAILED",
    "NAMES",
    "OK",
    "OPEN",
    "SCHEMA_VALIDATION_FAILED",
    "SESSION_CREATED",
    "SESSION_DISCARDED",
    "SESSION_RESUMED",
    "SESSION_SUBSCRIBED",
    "SESSION_TAKENOVER",
    "SESSION_TERMINATED",
    "SESSION_UNSUBSCRIBED",
    "SPECS",
    "STOP",
    "WAITS",
    "AlarmCallback",
    "AuthnCompleteCallback",
    "AuthzCompleteCallback",
    "Callback",
    "ClientAuthenticateCallback",
    "ClientAuthorizeCallback",
    "ClientConnackCallback",
    "ClientConnectCallback",
    "ClientConnectedCallback",
    "ClientDisconnectedCallback",
    "ClientSubscribeCallback",
    "ClientUnsubscribeCallback",
    "ConfigChangedCallback",
    "DeferredAck",
    "DeliveryCallback",
    "DeliveryDroppedCallback",
    "HookPoint",
    "HookSpec",
    "Hooks",
    "LateAnswerError",
    "MessageDroppedCallback",
    "MessagePublishCallback",
    "Pending",
    "PendingChain",
    "PolicyFailedCallback",
    "Refusal",
    "RewriteOnly",
    "SessionCallback",
    "SubscriptionCallback",
]

CLIENT_CONNECT: Final = "client.connect"
CLIENT_AUTHENTICATE: Final = "client.authenticate"
CLIENT_CONNACK: Final = "client.connack"
CLIENT_CONNECTED: Final = "client.connected"
CLIENT_DISCONNECTED: Final = "client.disconnected"
CLIENT_CHECK_AUTHN_COMPLETE: Final = "client.check_authn_complete"
CLIENT_AUTHORIZE: Final = "client.authorize"
CLIENT_CHECK_AUTHZ_COMPLETE: Final = "client.check_authz_complete"
CLIENT_SUBSCRIBE: Final = "client.subscribe"
CLIENT_UNSUBSCRIBE: Final = "client.unsubscribe"
SESSION_CREATED: Final = "session.created"
SESSION_SUBSCRIBED: Final = "session.subscribed"
SESSION_UNSUBSCRIBED: Final = "session.unsubscribed"
SESSION_RESUMED: Final = "session.resumed"
SESSION_DISCARDED: Final = "session.discarded"
SESSION_TAKENOVER: Final = "session.takenover"
SESSION_TERMINATED: Final = "session.terminated"
MESSAGE_PUBLISH: Final = "message.publish"
MESSAGE_DELIVERED: Final = "message.delivered"
MESSAGE_ACKED: Final = "message.acked"
MESSAGE_DROPPED: Final = "message.dropped"
DELIVERY_DROPPED: Final = "delivery.dropped"
DELIVERY_COMPLETED: Final = "delivery.completed"
SCHEMA_VALIDATION_FAILED: Final = "schema.validation_failed"
MESSAGE_TRANSFORMATION_FAILED: Final = "message.transformation_failed"
CONFIG_CHANGED: Final = "config.changed"
ALARM_ACTIVATED: Final = "alarm.activated"
ALARM_DEACTIVATED: Final = "alarm.deactivated"

# The callbacks of each hook point, by the arguments that they get; the accumulator is the last one.
ClientConnectCallback = Callable[[ClientInfo, Connect, int], object]
ClientAuthenticateCallback = Callable[[ClientInfo, AuthAttempt, AuthOutcome], object]
ClientConnackCallback = Callable[[ClientInfo, int, Properties], object]
ClientConnectedCallback = Callable[[ClientInfo, Connect, None], object]
ClientDisconnectedCallback = Callable[[ClientInfo, str, Properties, None], object]
AuthnCompleteCallback = Callable[[ClientInfo, int, bool, bool, None], object]
ClientAuthorizeCallback = Callable[[ClientInfo, Action, str, AuthzOutcome], object]
AuthzCompleteCallback = Callable[[ClientInfo, Action, str, Decision, None], object]
ClientSubscribeCallback = Callable[[ClientInfo, Properties, list[SubscribeEntry]], object]
ClientUnsubscribeCallback = Callable[[ClientInfo, Properties, list[str]], object]
SessionCallback = Callable[[str, None], object]
SubscriptionCallback = Callable[[str, str, int, Properties, None], object]
MessagePublishCallback = Callable[[Message], object]
DeliveryCallback = Callable[[str, Message, None], object]
MessageDroppedCallback = Callable[[Message, str, None], object]
DeliveryDroppedCallback = Callable[[str, Message, str, None], object]
PolicyFailedCallback = Callable[[Message, str, None], object]
ConfigChangedCallback = Callable[[int, list[str], None], object]
AlarmCallback = Callable[[object, None], object]  # an `observe.alarms.Alarm`, which this package does not know


class HookSpec:
    """What holds at one hook point.

    Args:
        arguments: What the arguments before the accumulator are called, separated by blanks.
        begins_with: What the accumulator is at first, in words; empty where it does not count, and is None.
        fails: What a callback that raises means: `OPEN`, `CLOSED` or `CLOSED_UNLESS_DECIDED`.
        may_wait: Whether a callback may answer with a `Pending`.
    """

    def __init__(
        self,
        name: str,
        callback: object,
        arguments: str,
        begins_with: str = "",
        fails: str = OPEN,
        may_wait: bool = False,
    ) -> None:
        self.name = name
        self.callback = callback
        self.arguments = arguments
        self.begins_with = begins_with
        self.fails = fails
        self.may_wait = may_wait

    def __repr__(self) -> str:
        return f"HookSpec({self.name!r}, fails {self.fails})"


HOOK_POINTS: Final = (
    # A callback that failed might have refused the client: a ban that cannot be looked up is a ban.
    HookSpec(CLIENT_CONNECT, ClientConnectCallback, "client connect", "SUCCESS", CLOSED),
    HookSpec(  # another authenticator may know the client
        CLIENT_AUTHENTICATE,
        ClientAuthenticateCallback,
        "client attempt",
        "SUCCESS, or BAD_AUTHENTICATION_METHOD if the client names a method",
        CLOSED_UNLESS_DECIDED,
        may_wait=True,
    ),
    HookSpec(CLIENT_CONNACK, ClientConnackCallback, "client code", "those of the broker"),
    HookSpec(
        CLIENT_AUTHORIZE,
        ClientAuthorizeCallback,
        "client action topic",
        "the decision of authorization.no_match",
        CLOSED,
        may_wait=True,
    ),
    HookSpec(CLIENT_SUBSCRIBE, ClientSubscribeCallback, "client properties", "the packet's"),
    HookSpec(CLIENT_UNSUBSCRIBE, ClientUnsubscribeCallback, "client properties", "the packet's"),
    HookSpec(MESSAGE_PUBLISH, MessagePublishCallback, "", "the message", may_wait=True),
    HookSpec(CLIENT_CONNECTED, ClientConnectedCallback, "client connect"),
    HookSpec(CLIENT_DISCONNECTED, ClientDisconnectedCallback, "client reason properties"),
    HookSpec(CLIENT_CHECK_AUTHN_COMPLETE, AuthnCompleteCallback, "client code is_superuser is_anonymous"),
    HookSpec(CLIENT_CHECK_AUTHZ_COMPLETE, AuthzCompleteCallback, "client action topic decision"),
    HookSpec(SESSION_CREATED, SessionCallback, "clientid"),
    HookSpec(SESSION_RESUMED, SessionCallback, "clientid"),
    HookSpec(SESSION_DISCARDED, SessionCallback, "clientid"),
    HookSpec(SESSION_TAKENOVER, SessionCallback, "clientid"),
    HookSpec(SESSION_TERMINATED, SessionCallback, "clientid"),
    HookSpec(SESSION_SUBSCRIBED, SubscriptionCallback, "clientid topic_filter qos properties"),
    HookSpec(SESSION_UNSUBSCRIBED, SubscriptionCallback, "clientid topic_filter qos properties"),
    HookSpec(MESSAGE_DELIVERED, DeliveryCallback, "clientid message"),
    HookSpec(MESSAGE_ACKED, DeliveryCallback, "clientid message"),
    HookSpec(MESSAGE_DROPPED, MessageDroppedCallback, "message reason"),
    HookSpec(DELIVERY_DROPPED, DeliveryDroppedCallback, "clientid message reason"),
    HookSpec(DELIVERY_COMPLETED, DeliveryCallback, "clientid message"),
    HookSpec(SCHEMA_VALIDATION_FAILED, PolicyFailedCallback, "message name"),
    HookSpec(MESSAGE_TRANSFORMATION_FAILED, PolicyFailedCallback, "message name"),
    HookSpec(CONFIG_CHANGED, ConfigChangedCallback, "revision paths"),
    HookSpec(ALARM_ACTIVATED, AlarmCallback, "alarm"),
    HookSpec(ALARM_DEACTIVATED, AlarmCallback, "alarm"),
)

NAMES: Final = tuple(spec.name for spec in HOOK_POINTS)
SPECS: Final = {spec.name: spec for spec in HOOK_POINTS}


class Hooks:
    """All hook points of a node, each an attribute that knows the type of its callbacks, and found by name."""

    def __init__(self, on_failure: Callable[[str, Exception], object] | None = None) -> None:
        self._points: dict[str, HookPoint[Callback]] = {
            spec.name: HookPoint(spec.name, spec.fails, spec.may_wait, on_failure) for spec in HOOK_POINTS
        }
        self.client_connect: HookPoint[ClientConnectCallback] = self.point(CLIENT_CONNECT)
        self.client_authenticate: HookPoint[ClientAuthenticateCallback] = self.point(CLIENT_AUTHENTICATE)
        self.client_connack: HookPoint[ClientConnackCallback] = self.point(CLIENT_CONNACK)
        self.client_authorize: HookPoint[ClientAuthorizeCallback] = self.point(CLIENT_AUTHORIZE)
        self.client_subscribe: HookPoint[ClientSubscribeCallback] = self.point(CLIENT_SUBSCRIBE)
        self.client_unsubscribe: HookPoint[ClientUnsubscribeCallback] = self.point(CLIENT_UNSUBSCRIBE)
        self.message_publish: HookPoint[MessagePublishCallback] = self.point(MESSAGE_PUBLISH)
        self.client_connected: HookPoint[ClientConnectedCallback] = self.point(CLIENT_CONNECTED)
        self.client_disconnected: HookPoint[ClientDisconnectedCallback] = self.point(CLIENT_DISCONNECTED)
        self.client_check_authn_complete: HookPoint[AuthnCompleteCallback] = self.point(CLIENT_CHECK_AUTHN_COMPLETE)
        self.client_check_authz_complete: HookPoint[AuthzCompleteCallback] = self.point(CLIENT_CHECK_AUTHZ_COMPLETE)
        self.session_created: HookPoint[SessionCallback] = self.point(SESSION_CREATED)
        self.session_resumed: HookPoint[SessionCallback] = self.point(SESSION_RESUMED)
        self.session_discarded: HookPoint[SessionCallback] = self.point(SESSION_DISCARDED)
        self.session_takenover: HookPoint[SessionCallback] = self.point(SESSION_TAKENOVER)
        self.session_terminated: HookPoint[SessionCallback] = self.point(SESSION_TERMINATED)
        self.session_subscribed: HookPoint[SubscriptionCallback] = self.point(SESSION_SUBSCRIBED)
        self.session_unsubscribed: HookPoint[SubscriptionCallback] = self.point(SESSION_UNSUBSCRIBED)
        self.message_delivered: HookPoint[DeliveryCallback] = self.point(MESSAGE_DELIVERED)
        self.message_acked: HookPoint[DeliveryCallback] = self.point(MESSAGE_ACKED)
        self.message_dropped: HookPoint[MessageDroppedCallback] = self.point(MESSAGE_DROPPED)
        self.delivery_dropped: HookPoint[DeliveryDroppedCallback] = self.point(DELIVERY_DROPPED)
        self.delivery_completed: HookPoint[DeliveryCallback] = self.point(DELIVERY_COMPLETED)
        self.schema_validation_failed: HookPoint[PolicyFailedCallback] = self.point(SCHEMA_VALIDATION_FAILED)
        self.message_transformation_failed: HookPoint[PolicyFailedCallback] = self.point(MESSAGE_TRANSFORMATION_FAILED)
        self.config_changed: HookPoint[ConfigChangedCallback] = self.point(CONFIG_CHANGED)
        self.alarm_activated: HookPoint[AlarmCallback] = self.point(ALARM_ACTIVATED)
        self.alarm_deactivated: HookPoint[AlarmCallback] = self.point(ALARM_DEACTIVATED)

    def point(self, name: str) -> HookPoint[Callback]:
        """The hook point of that name, for callbacks whose type is not checked."""
        point = self._points.get(name)
        if point is None:
            raise ValueError(f"hook point {name!r} does not exist; there are {', '.join(NAMES)}")
        return point

    def run(self, name: str, args: tuple[object, ...], accumulator: object = None) -> tuple[str, object]:
        point = self._points[name]
        if not point.callbacks:
            return OK, accumulator
        return point.run(args, accumulator)
