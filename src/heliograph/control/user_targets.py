"""Which authenticator a request about users means; one is added where the configuration has none with users."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from heliograph.config.authentication import BuiltInDatabaseConfig, ScramConfig
from heliograph.config.listeners import every_listener
from heliograph.config.settings import Config
from heliograph.config_changes.manager import ConfigManager
from heliograph.control.configured import AUTHENTICATORS, ConfiguredList
from heliograph.control.proto_v1 import users as proto
from heliograph.rpc.methods import Call, RpcError

BuiltIn = BuiltInDatabaseConfig | ScramConfig

_ADDED = '{"mechanism": "password_based", "backend": "built_in_database"}'


@dataclass(frozen=True, slots=True)
class UserTarget:
    """An authenticator with users.

    Attributes:
        chain: A listener as `tcp:default`; empty for the chain of all listeners without their own.
        made_in: The revision of the configuration in which it was added; None if it was there.
    """

    chain: str
    settings: BuiltIn
    made_in: int | None = None

    @property
    def authenticator(self) -> str:
        """Its id."""
        return f"{self.settings.mechanism}:{self.settings.backend}"


class UserTargets:
    """Finds the authenticators of a node; owned by the answers about users.

    Args:
        config: The configuration that holds.
        manager: What changes it; None where it cannot be changed.
    """

    def __init__(self, config: Callable[[], Config], manager: ConfigManager | None) -> None:
        self._config = config
        self._manager = manager

    def find(self, args: proto.UsersOf) -> UserTarget:
        """The authenticator that is meant.

        Raises:
            RpcError: There is none, or the request does not say which.
        """
        chains = dict(self._chains())
        if args.chain and args.chain not in self._listeners():
            raise _unknown(f"there is no listener {args.chain!r}; there are {', '.join(self._listeners())}")
        in_chain = [one for one in chains.get(args.chain, []) if args.mechanism in ("", one.mechanism)]
        if in_chain:
            return UserTarget(args.chain, in_chain[0])
        others = [
            f"{one.mechanism}:{one.backend} {f'with --listener {chain}' if chain else 'without --listener'}"
            for chain, found in chains.items()
            for one in found
        ]
        where = f"the listener {args.chain}" if args.chain else "all listeners"
        what = f"{args.mechanism}:built_in_database" if args.mechanism else "authenticator with users"
        hint = f"; there is {', '.join(others)}" if others else ""
        raise _unknown(f"there is no {what} for {where}{hint}. docs/authentication.md shows how to add one")

    async def find_or_make(self, args: proto.UsersOf, call: Call) -> UserTarget:
        """The authenticator that is meant; on a node where no chain has one with users, one is added first.

        Raises:
            RpcError: There is none, and it cannot be added.
        """
        if args.chain or args.mechanism == "scram" or any(found for _, found in self._chains()):
            return self.find(args)
        if self._manager is None:
            raise _unknown("there is no authenticator with users, and the configuration of this node cannot be changed")
        try:
            added = await ConfiguredList(self._manager, AUTHENTICATORS).change(call, lambda chain: chain.add(_ADDED))
        except RpcError as error:
            if any(found for _, found in self._chains()):  # another caller was faster
                return self.find(args)
            text = f"there is no authenticator with users, and none can be added: {error.message}"
            raise RpcError(error.code, text) from None
        found = self.find(args)
        return UserTarget(found.chain, found.settings, added.outcome.revision)

    def _chains(self) -> Iterator[tuple[str, list[BuiltIn]]]:
        """Each chain that clients may meet, with its authenticators that have users."""
        config = self._config()
        yield "", [one for one in config.authentication if isinstance(one, BuiltIn)]
        for kind, name, listener in every_listener(config.listeners):
            if listener.authentication:
                yield f"{kind}:{name}", [one for one in listener.authentication if isinstance(one, BuiltIn)]

    def _listeners(self) -> list[str]:
        return [f"{kind}:{name}" for kind, name, _ in every_listener(self._config().listeners)]

    def chain_of(self, listener: str) -> str:
        """The chain that the clients of a listener meet."""
        return listener if any(chain == listener for chain, _ in self._chains()) else ""


def _unknown(message: str) -> RpcError:
    return RpcError("no_authenticator", message)
