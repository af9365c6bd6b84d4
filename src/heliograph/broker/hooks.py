"""Hook points: chains of callbacks that others put into the broker's path.

A callback gets the arguments of its hook point and the accumulator, and answers as EMQX's callbacks do:

    OK                 go on              STOP               end the chain
    (OK, value)        go on with value   (STOP, value)      end the chain with value

A callback that raises is counted, reported to `on_failure`, and skipped. What that means for the chain is declared for
each hook point (`ON_FAILURE`): most fail open, so that a message's way does not end on a fault; those that let clients
in or say what they may do fail closed, since the callback that failed might have refused.

Callbacks run in the event loop, in the middle of a packet or of a turn, and must neither block nor wait. Before the
accumulator they get (ClientInfo is `broker.client`'s, Connect and the others are `mqtt.packets`'):

    client.connect                      ClientInfo, Connect
    client.authenticate                 ClientInfo, AuthAttempt
    client.connack                      ClientInfo, reason code
    client.connected                    ClientInfo, Connect
    client.disconnected                 ClientInfo, reason, Properties of its DISCONNECT (empty without one)
    client.check_authn_complete         ClientInfo, AuthStep or None, reason code
    client.authorize                    ClientInfo, "publish" or "subscribe", topic or topic filter
    client.check_authz_complete         ClientInfo, "publish" or "subscribe", topic or topic filter, "allow" or "deny"
    client.subscribe                    ClientInfo, Properties
    client.unsubscribe                  ClientInfo, Properties
    session.created, .resumed, .discarded, .takenover, .terminated    client id
    session.subscribed                  client id, topic filter, granted QoS, Properties of the packet
    session.unsubscribed                client id, topic filter, QoS that was granted, Properties of the packet
    message.publish                     nothing
    message.delivered, .acked           client id, Message
    message.dropped                     Message, reason
    delivery.dropped                    client id, Message, reason
    delivery.completed                  client id, Message
    schema.validation_failed            Message, name of the validation
    message.transformation_failed       Message, name of the transformation
    alarm.activated, .deactivated       Alarm of `observe.alarms`

Topics and filters are those that the client named, without its mountpoint; for `client.authorize` also without what
stands before the topic that is meant: `$share/<group>/`, `$queue/`, `$exclusive/`, `$delayed/<seconds>/`.

What they make of the accumulator counts at these points; the others are told what happens, and answer None.

    client.connect         the reason code, `SUCCESS` to begin with; any other refuses the client
    client.authenticate    the `AuthStep` (or reason code, or `Deferred`) of `broker.authentication`
    client.connack         the Properties of the CONNACK; MQTT 5 only
    client.authorize       "allow" or "deny", "allow" to begin with; decisions are remembered by the connection
    client.subscribe       the list of SubscribeEntry, of which a callback may make another of the same length, with
                           other filters; an entry with a `code` is refused with it
    client.unsubscribe     the list of topic filters, likewise
    message.publish        the Message: another one is published instead, `(STOP, None)` drops it, and
                           `(STOP, Refusal)` drops it and says what its publisher is told
"""

from collections.abc import Callable
from typing import Final

from heliograph.broker.message import Message

OK: Final = "ok"
STOP: Final = "stop"
FAILED: Final = "failed"  # a chain's verdict where it fails closed and a callback raised; no callback answers it

# What a callback that raises means for its chain.
OPEN: Final = "open"  # it goes on as if the callback were not there
CLOSED: Final = "closed"  # it has failed, whatever the others say
CLOSED_UNLESS_DECIDED: Final = "closed unless decided"  # it has failed, unless a later callback ends it

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
ALARM_ACTIVATED: Final = "alarm.activated"
ALARM_DEACTIVATED: Final = "alarm.deactivated"

NAMES: Final = (
    CLIENT_CONNECT,
    CLIENT_AUTHENTICATE,
    CLIENT_CONNACK,
    CLIENT_CONNECTED,
    CLIENT_CHECK_AUTHN_COMPLETE,
    CLIENT_DISCONNECTED,
    CLIENT_AUTHORIZE,
    CLIENT_CHECK_AUTHZ_COMPLETE,
    CLIENT_SUBSCRIBE,
    CLIENT_UNSUBSCRIBE,
    SESSION_CREATED,
    SESSION_SUBSCRIBED,
    SESSION_UNSUBSCRIBED,
    SESSION_RESUMED,
    SESSION_DISCARDED,
    SESSION_TAKENOVER,
    SESSION_TERMINATED,
    MESSAGE_PUBLISH,
    MESSAGE_DELIVERED,
    MESSAGE_ACKED,
    MESSAGE_DROPPED,
    DELIVERY_DROPPED,
    DELIVERY_COMPLETED,
    SCHEMA_VALIDATION_FAILED,
    MESSAGE_TRANSFORMATION_FAILED,
    ALARM_ACTIVATED,
    ALARM_DEACTIVATED,
)

# The others fail open.
ON_FAILURE: Final = {
    CLIENT_CONNECT: CLOSED,
    CLIENT_AUTHENTICATE: CLOSED_UNLESS_DECIDED,  # another authenticator may know the client
    CLIENT_AUTHORIZE: CLOSED,
}

Callback = Callable[..., object]
Shape = Callable[[Message], Message | None]


class Refusal:
    """What a callback of `message.publish` drops a message with, beside `STOP`.

    Args:
        reason: Why, as `message.dropped` is told; empty where it is not told, because nothing is lost.
        code: The reason code of the acknowledgement; MQTT 3 has none that refuses, and gets an ordinary one.
        disconnects: Whether the publisher's connection ends, with a DISCONNECT of that code.
        may_repeat: Whether the message would be taken later: at QoS 1 and 2 MQTT 3 gets no acknowledgement, its
            connection ends and its client repeats; a will is kept and published again.
    """

    def __init__(self, reason: str, code: int, disconnects: bool, may_repeat: bool = False) -> None:
        self.reason = reason
        self.code = code
        self.disconnects = disconnects
        self.may_repeat = may_repeat

    def __repr__(self) -> str:
        return f"Refusal({self.reason!r}, 0x{self.code:02x}, disconnects={self.disconnects})"


class HookPoint:
    """One chain; owned by `Hooks`. `callbacks` is empty while nobody hooked in, which is all the hot path asks."""

    def __init__(self, name: str, on_failure: Callable[[str, Exception], object] | None) -> None:
        self.name = name
        self.on_failure = ON_FAILURE.get(name, OPEN)
        self.callbacks: list[Callback] = []
        self.failures_count = 0
        self._priorities: list[int] = []
        self._wants: list[Callable[[str], bool] | None] = []
        self._shapes: list[Shape | None] = []
        self._on_failure = on_failure
        self.on_change: Callable[[], None] | None = None  # called when callbacks come or go

    def add(
        self,
        callback: Callback,
        priority: int = 0,
        wants: Callable[[str], bool] | None = None,
        shape: Shape | None = None,
    ) -> None:
        """Put a callback into the chain: higher priorities run first, equal ones in the order they came.

        Args:
            wants: At `message.publish`, which topics the callback is for; None for all. It is asked when a topic is
                routed for the first time, so that messages of other topics pay nothing. A chain that runs because one
                callback wants the topic runs whole: each must look for itself too.
            shape: At `message.publish`, what a callback that changes messages makes of one, None where it drops it;
                without counting, telling or keeping anything. It is asked when a client repeats at QoS 2 what a crash
                may have left stored, to know it again.
        """
        at = 0
        while at < len(self._priorities) and self._priorities[at] >= priority:
            at += 1
        self._priorities.insert(at, priority)
        self.callbacks.insert(at, callback)
        self._wants.insert(at, wants)
        self._shapes.insert(at, shape)
        if self.on_change is not None:
            self.on_change()

    def remove(self, callback: Callback) -> None:
        """Take a callback out; one that is not there is ignored."""
        if callback in self.callbacks:
            at = self.callbacks.index(callback)
            del self.callbacks[at]
            del self._priorities[at]
            del self._wants[at]
            del self._shapes[at]
            if self.on_change is not None:
                self.on_change()

    def renew(self) -> None:
        """Ask the callbacks anew which topics they are for, after the answer of one of them changed."""
        if self.on_change is not None:
            self.on_change()

    def is_wanted(self, topic: str) -> bool:
        """Whether a callback of the chain is for messages of that topic."""
        return any(wants is None or wants(topic) for wants in self._wants)

    def run(self, args: tuple[object, ...], accumulator: object = None) -> tuple[str, object]:
        """Run the chain.

        Returns:
            `(OK, accumulator)` when it came to its end, `(STOP, accumulator)` when one stopped it, and
            `(FAILED, accumulator)` when one raised at a hook point that fails closed.
        """
        has_failed = False
        for callback in list(self.callbacks):
            try:
                verdict = callback(*args, accumulator)
                if isinstance(verdict, tuple):
                    verdict, accumulator = verdict
            except Exception as error:  # noqa: BLE001 - the chain is the boundary to code of others
                self.report(error)
                has_failed = self.on_failure != OPEN
                continue
            if verdict == STOP:
                return (FAILED if has_failed and self.on_failure == CLOSED else STOP), accumulator
        return (FAILED if has_failed else OK), accumulator

    def shaped(self, message: Message) -> Message | None:
        """What the callbacks that change messages make of one, and None where one drops it; nobody is told of it."""
        for shape in list(self._shapes):
            if shape is None:
                continue
            try:
                outcome = shape(message)
            except Exception as error:  # noqa: BLE001 - as in `run`
                self.report(error)
                continue
            if outcome is None:
                return None
            message = outcome
        return message

    def report(self, error: Exception) -> None:
        """Count a failure of a callback, and tell of it."""
        self.failures_count += 1
        if self._on_failure is not None:
            self._on_failure(self.name, error)


class Hooks:
    """All hook points of a node, each an attribute of the hot path or found by name.

    Args:
        on_failure: Told the hook point's name and the exception when a callback raised.
    """

    def __init__(self, on_failure: Callable[[str, Exception], object] | None = None) -> None:
        self._points: dict[str, HookPoint] = {name: HookPoint(name, on_failure) for name in NAMES}
        self.message_publish = self._points[MESSAGE_PUBLISH]
        self.message_delivered = self._points[MESSAGE_DELIVERED]
        self.message_acked = self._points[MESSAGE_ACKED]
        self.message_dropped = self._points[MESSAGE_DROPPED]
        self.delivery_dropped = self._points[DELIVERY_DROPPED]
        self.delivery_completed = self._points[DELIVERY_COMPLETED]
        self.client_authorize = self._points[CLIENT_AUTHORIZE]

    def point(self, name: str) -> HookPoint:
        """The hook point of that name.

        Raises:
            ValueError: There is none.
        """
        point = self._points.get(name)
        if point is None:
            raise ValueError(f"hook point {name!r} does not exist; there are {', '.join(NAMES)}")
        return point

    def run(self, name: str, args: tuple[object, ...], accumulator: object = None) -> tuple[str, object]:
        """Run the chain of that name; see `HookPoint.run`."""
        point = self._points[name]
        if not point.callbacks:
            return OK, accumulator
        return point.run(args, accumulator)
