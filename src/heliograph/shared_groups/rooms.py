"""Which members wait for room in the sessions of their clients: one for each message that a client takes, in turn.

A client may be a member of thousands of groups, and takes a few messages at once: whenever it takes one, one member has
its turn, instead of all of them being asked.
"""

from heliograph.broker.subscription import Subscriber, Subscription


class Rooms:
    """The subscriptions that wait for room, by session; owned by the node's durable groups."""

    def __init__(self) -> None:
        self._waiting: dict[Subscriber, dict[Subscription, None]] = {}

    def wait(self, subscription: Subscription) -> None:
        self._waiting.setdefault(subscription.subscriber, {})[subscription] = None

    def next(self, session: Subscriber) -> Subscription | None:
        """The subscription that waits longest, which does not wait any more; None if there is none."""
        waiting = self._waiting.get(session)
        if waiting is None:
            return None
        subscription = next(iter(waiting))
        self._remove(waiting, subscription)
        return subscription

    def forget(self, subscription: Subscription) -> None:
        waiting = self._waiting.get(subscription.subscriber)
        if waiting is not None and subscription in waiting:
            self._remove(waiting, subscription)

    def forget_session(self, session: Subscriber) -> None:
        self._waiting.pop(session, None)

    def _remove(self, waiting: dict[Subscription, None], subscription: Subscription) -> None:
        del waiting[subscription]
        if not waiting:
            del self._waiting[subscription.subscriber]

    def __repr__(self) -> str:
        return f"Rooms({len(self._waiting)} sessions)"
