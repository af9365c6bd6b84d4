"""The default decision of `authorization`, as a part of a node: the last callback of `client.authorize`."""

from heliograph.broker import hooks
from heliograph.broker.hook_order import NO_MATCH
from heliograph.broker.pubsub import Broker
from heliograph.config import Authorization, Config
from heliograph.parts import Change, Part


class AuthorizationPart(Part):
    """What clients may do where no callback decides; owned by the node."""

    name = "authorization"
    needs = ("kernel",)
    roots = ("authorization.no_match", "authorization.check_retained_source")

    def __init__(self, config: Config, broker: Broker) -> None:
        self._settings = config.authorization
        self._broker = broker
        self._is_denying = False

    async def start(self) -> None:
        """Deny what no callback decided, if the operator wants it so; allowing it needs no callback."""
        self._set(self._settings)

    async def check(self, new: Config) -> Change:
        """What holds for decisions from now on; what connections remember stays until it is too old."""
        return Change(lambda: self._set(new.authorization))

    def _set(self, settings: Authorization) -> None:
        self._broker.checks_retained_source = settings.check_retained_source
        point, denies = self._broker.hooks.client_authorize, settings.no_match == "deny"
        if denies and not self._is_denying:
            point.add(_deny, NO_MATCH)
        elif self._is_denying and not denies:
            point.remove(_deny)
        self._is_denying = denies


def _deny(*_asked: object) -> tuple[str, str]:
    return hooks.STOP, "deny"
