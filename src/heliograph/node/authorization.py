"""What `authorization` says where nobody decides: the last word of the hook point `client.authorize`."""

from heliograph.broker import hooks
from heliograph.broker.hook_order import NO_MATCH
from heliograph.broker.pubsub import Broker
from heliograph.config import Authorization


def deny_by_default(settings: Authorization, broker: Broker) -> None:
    """Deny what no callback decided, if the operator wants it so; allowing it needs no callback."""
    broker.checks_retained_source = settings.check_retained_source
    if settings.no_match == "deny":
        broker.hooks.client_authorize.add(_deny, NO_MATCH)


def _deny(*_asked: object) -> tuple[str, str]:
    return hooks.STOP, "deny"
