"""What `authorization` says where nobody decides, as a part of a node: the last word of `client.authorize`."""

from heliograph.broker import hooks
from heliograph.broker.hook_order import NO_MATCH
from heliograph.broker.pubsub import Broker
from heliograph.config import Config
from heliograph.parts import Part


class AuthorizationPart(Part):
    """What clients may do where no callback decides; owned by the node."""

    name = "authorization"
    needs = ("kernel",)
    roots = ("authorization",)

    def __init__(self, config: Config, broker: Broker) -> None:
        self._settings = config.authorization
        self._broker = broker

    async def start(self) -> None:
        """Deny what no callback decided, if the operator wants it so; allowing it needs no callback."""
        self._broker.checks_retained_source = self._settings.check_retained_source
        if self._settings.no_match == "deny":
            self._broker.hooks.client_authorize.add(_deny, NO_MATCH)


def _deny(*_asked: object) -> tuple[str, str]:
    return hooks.STOP, "deny"
