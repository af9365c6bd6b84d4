"""What `authorization` says where nobody decides: the last word of the hook point `client.authorize`."""

from typing import Final

from heliograph.broker import hooks
from heliograph.broker.pubsub import Broker
from heliograph.config import Authorization

# Behind everybody: whoever knows better has ended the chain with its answer.
_LAST: Final = -1_000_000


def deny_by_default(settings: Authorization, broker: Broker) -> None:
    """Deny what no callback decided, if the operator wants it so; allowing it needs no callback."""
    broker.checks_retained_source = settings.check_retained_source
    if settings.no_match == "deny":
        broker.hooks.point(hooks.CLIENT_AUTHORIZE).add(_deny, _LAST)


def _deny(*_asked: object) -> tuple[str, str]:
    return hooks.STOP, "deny"
