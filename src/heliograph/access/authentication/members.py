"""Makes the members of chains. A module of a kind is loaded when needed; members with unchanged settings are kept."""

import importlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, Final

from heliograph.access.authentication.chain import ChainMember
from heliograph.access.authentication.interface import Authenticator, Surroundings
from heliograph.config.authentication import AuthenticatorConfig, JwtConfig
from heliograph.config.listeners import enabled, every_listener
from heliograph.config.settings import Config
from heliograph.parts import each

GLOBAL: Final = ""
"""The name of the chain of all listeners that have none of their own."""


Path = tuple[str, ...]
Chains = Mapping[str, Sequence[ChainMember]]
"""The enabled members of each chain by its name: a listener as `tcp:default`, or `GLOBAL`."""


class AuthenticatorInvalidError(Exception):
    code: ClassVar[str] = "authenticator_invalid"

    def __init__(self, path: Path, problem: str) -> None:
        super().__init__(path, problem)
        self.path = path
        self.problem = problem

    def __str__(self) -> str:
        return f"{'.'.join(self.path)}: {self.problem}"


def chain_settings(config: Config) -> Iterator[tuple[str, Path, Sequence[AuthenticatorConfig]]]:
    """Each chain that is configured, those of listeners that are switched off too: name, path of its list, the list."""
    yield GLOBAL, ("authentication",), config.authentication
    for kind, name, listener in every_listener(config.listeners):
        if listener.authentication:
            path = ("listeners", kind, name, "authentication")
            yield f"{kind}:{name}", path, listener.authentication


class MemberMaker:
    """Makes members; owned by the part. `surroundings` gives what the authenticators of a chain are made with."""

    def __init__(self, surroundings: Callable[[str], Surroundings]) -> None:
        self._surroundings = surroundings

    def make(self, config: Config, present: Chains) -> tuple[Chains, list[ChainMember]]:
        """All members that a configuration asks for, and those of them that are new and not started.

        Raises:
            ExceptionGroup: With an `AuthenticatorInvalidError` for each that cannot be made.
        """
        fresh: list[ChainMember] = []
        errors: list[AuthenticatorInvalidError] = []
        chains: dict[str, Sequence[ChainMember]] = {}
        on = {GLOBAL, *(f"{kind}:{name}" for kind, name, _ in enabled(config.listeners))}
        for name, path, listed in chain_settings(config):
            if name not in on:
                continue
            surroundings = self._surroundings(name)
            members: list[ChainMember] = []
            for number, settings in enumerate(listed, 1):
                if not settings.enable:
                    continue
                try:
                    member = _kept(present.get(name, ()), settings) or made_member(settings, surroundings)
                except Exception as error:  # noqa: BLE001 - each kind has its own: all are the operator's to mend
                    errors.append(AuthenticatorInvalidError((*path, str(number)), str(error)))
                    continue
                members.append(member)
                if member not in present.get(name, ()):
                    fresh.append(member)
            chains[name] = members
        if errors:
            raise ExceptionGroup("authenticators cannot be used", errors)
        return chains, fresh

    def forget(self, before: Config, after: Config) -> None:
        """Delete what authenticators keep on the disk and a configuration no longer has."""
        left = {(chain, type(settings)) for chain, _, listed in chain_settings(after) for settings in listed}
        gone = [
            (chain, settings)
            for chain, _, listed in chain_settings(before)
            for settings in listed
            if (chain, type(settings)) not in left
        ]
        each(gone, lambda one: make_authenticator(one[1], self._surroundings(one[0])).forget())


def made_member(settings: AuthenticatorConfig, surroundings: Surroundings) -> ChainMember:
    """A member that is not started; raises where its settings cannot be used."""
    precondition = None
    if settings.precondition.strip():
        from heliograph.access.authentication.expressions import ClientExpression  # with a language, which takes time

        precondition = ClientExpression(settings.precondition)
    return ChainMember(settings, make_authenticator(settings, surroundings), precondition)


def _kept(present: Sequence[ChainMember], settings: AuthenticatorConfig) -> ChainMember | None:
    return next((one for one in present if one.settings == settings and one.authenticator.is_current()), None)


def load_makers(wanted: Iterable[AuthenticatorConfig]) -> None:
    """Load what makes authenticators, libraries too; takes long, and may be called in a thread."""
    for settings in wanted:
        importlib.import_module(f"{__package__}.{settings.maker}")
        if isinstance(settings, JwtConfig) and settings.use_jwks:
            importlib.import_module(f"{__package__}.jwks")


def make_authenticator(settings: AuthenticatorConfig, surroundings: Surroundings) -> Authenticator:
    """An authenticator that is not started; the `make` of its module raises where settings cannot be used."""
    module: Any = importlib.import_module(f"{__package__}.{settings.maker}")
    made = module.make(settings, surroundings)
    assert isinstance(made, Authenticator)
    return made
