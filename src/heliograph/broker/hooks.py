"""Hook points: chains of callbacks that others put into the broker's path.

A callback gets the arguments of its hook point and the accumulator, and answers as EMQX's callbacks do:

    OK                 go on              STOP               end the chain
    (OK, value)        go on with value   (STOP, value)      end the chain with value

A callback that raises is counted, reported to `on_failure`, and skipped: the message's way does not end on it.

Callbacks run in the event loop, in the middle of a packet or of a turn, and must neither block nor wait. Before the
accumulator they get:

    client.connect, .authenticate, .connected    client id, Connect, peer's address
    client.disconnected                          client id, reason, peer's address
    client.subscribe, .unsubscribe               client id, Subscribe or Unsubscribe
    session.subscribed                           client id, topic filter, granted QoS
    session.unsubscribed                         client id, topic filter
    session.created, .resumed, .discarded, .takenover, .terminated    client id
    message.publish                              nothing
    message.delivered, .acked                    client id, Message
    message.dropped                              Message, reason
    delivery.dropped                             client id, Message, reason

What they make of the accumulator counts at four points; the others are told what happens. At `message.publish` it is
the Message: another one is published instead, and `(STOP, None)` drops it. At `client.authenticate` it is the reason
code, `SUCCESS` to begin with; any other refuses the client. At `client.subscribe` and `client.unsubscribe` it is the
set of topic filters that are denied, empty to begin with; each is answered with "not authorized".
"""

from collections.abc import Callable
from typing import Final

OK: Final = "ok"
STOP: Final = "stop"

CLIENT_CONNECT: Final = "client.connect"
CLIENT_CONNECTED: Final = "client.connected"
CLIENT_DISCONNECTED: Final = "client.disconnected"
CLIENT_AUTHENTICATE: Final = "client.authenticate"
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

NAMES: Final = (
    CLIENT_CONNECT,
    CLIENT_CONNECTED,
    CLIENT_DISCONNECTED,
    CLIENT_AUTHENTICATE,
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
)

Callback = Callable[..., object]


class HookPoint:
    """One chain; owned by `Hooks`. `callbacks` is empty while nobody hooked in, which is all the hot path asks."""

    def __init__(self, name: str, on_failure: Callable[[str, Exception], object] | None) -> None:
        self.name = name
        self.callbacks: list[Callback] = []
        self.failures_count = 0
        self._priorities: list[int] = []
        self._on_failure = on_failure

    def add(self, callback: Callback, priority: int = 0) -> None:
        """Put a callback into the chain: higher priorities run first, equal ones in the order they came."""
        at = 0
        while at < len(self._priorities) and self._priorities[at] >= priority:
            at += 1
        self._priorities.insert(at, priority)
        self.callbacks.insert(at, callback)

    def remove(self, callback: Callback) -> None:
        """Take a callback out; one that is not there is ignored."""
        if callback in self.callbacks:
            at = self.callbacks.index(callback)
            del self.callbacks[at]
            del self._priorities[at]

    def run(self, args: tuple[object, ...], accumulator: object = None) -> tuple[str, object]:
        """Run the chain: `(OK, accumulator)` when it came to its end, `(STOP, accumulator)` when one stopped it."""
        for callback in list(self.callbacks):
            try:
                verdict = callback(*args, accumulator)
                if isinstance(verdict, tuple):
                    verdict, accumulator = verdict
            except Exception as error:  # noqa: BLE001 - the chain is the boundary to code of others
                self.report(error)
                continue
            if verdict == STOP:
                return STOP, accumulator
        return OK, accumulator

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
