"""Who a client is and whether it is let in: from CONNECT over AUTH packets to acceptance or refusal.

Bans, anonymous clients and authenticators are asked here, and what they say is the reason code of a CONNACK that
refuses. What a CONNECT may not ask for at all is refused in `channel.connect`.

The decisions here send nothing; the channel sends what they say. A connected client that authenticates again goes
through the same steps (MQTT 5 section 4.12).
"""

from mypy_extensions import i64

from heliograph.broker import hooks
from heliograph.broker.authentication import AuthAttempt, AuthStep, Grants, as_step
from heliograph.broker.client import ClientInfo
from heliograph.broker.hooks import PendingChain
from heliograph.broker.pending import Pending
from heliograph.broker.pubsub import Broker
from heliograph.mqtt import packets as p
from heliograph.mqtt import properties as props
from heliograph.mqtt import reason_codes as rc
from heliograph.mqtt.errors import ProtocolError


class PendingStep(Pending[bool]):
    """A step of an authentication that waits for an authenticator; resolved when `outcome` is set."""

    def __init__(self, chain: PendingChain) -> None:
        super().__init__()
        self.outcome: tuple[str, object] | None = None
        self._chain = chain
        chain.then(self._on_answer)

    def expire(self) -> None:
        """The deadline has passed: go on without the authenticator that has not answered."""
        self._chain.expire()

    def cancel(self) -> None:
        super().cancel()
        self._chain.cancel()

    def _on_answer(self, outcome: tuple[str, object]) -> None:
        self.outcome = outcome
        self.resolve(True)


class Handshake:
    """One client's authentication; made at its CONNECT, kept by its connect flow while AUTH packets may come.

    Attributes:
        is_anonymous: Whether no authenticator has checked the client.
    """

    def __init__(self, broker: Broker, client: ClientInfo, connect: p.Connect) -> None:
        self._broker = broker
        self._client = client
        self.method: str | None = connect.properties.strings.get(props.AUTHENTICATION_METHOD)
        data = connect.properties.binaries.get(props.AUTHENTICATION_DATA)
        self._attempt = AuthAttempt(self.method, data, client.username, connect.password)
        self.is_running = True
        self._is_banned = False  # refused before authentication
        self._has_granted = False
        self._attrs = client.client_attrs  # those that nothing granted
        self._named = client.username  # as bans were asked
        self.is_anonymous = True
        self._awaited: PendingStep | None = None
        self._began_us: i64 = broker.uptime_us

    def begin(self, connect: p.Connect, enable_authn: bool, deny_anonymous: bool) -> AuthStep | PendingStep:
        """The answer to CONNECT, which is not kept: it may hold a password."""
        verdict, code = self._broker.hooks.run(hooks.CLIENT_CONNECT, (self._client, connect), rc.SUCCESS)
        if verdict == hooks.FAILED:  # the one that failed might have refused it
            code = rc.SERVER_UNAVAILABLE
        if isinstance(code, int) and code != rc.SUCCESS:
            self._is_banned = True
            return AuthStep(code)
        self._broker.counters.authentications += 1
        if deny_anonymous and self.method is None and not self._client.username:
            self.is_anonymous = False
            return AuthStep(rc.NOT_AUTHORIZED)
        if not enable_authn and self.method is None:
            return AuthStep(rc.SUCCESS)
        return self._ask()

    def proceed(self, auth: p.Auth) -> AuthStep | PendingStep:
        """The answer to an AUTH of an authentication that is running."""
        self._check_method(auth)
        if auth.code != rc.CONTINUE_AUTHENTICATION:  # [MQTT-3.15.2-1] [MQTT-4.12.0-3]
            raise ProtocolError(f"AUTH with reason code 0x{auth.code:02x} while an authentication is running")
        self._attempt.data = auth.properties.binaries.get(props.AUTHENTICATION_DATA)
        return self._ask()

    def renew(self, auth: p.Auth) -> AuthStep | PendingStep:
        """The answer to an AUTH of a connected client: it authenticates again, or continues that."""
        if self.is_running:
            return self.proceed(auth)
        self._check_method(auth)  # [MQTT-4.12.1-1]
        if auth.code != rc.REAUTHENTICATE:
            raise ProtocolError(f"AUTH with reason code 0x{auth.code:02x} while no authentication is running")
        data = auth.properties.binaries.get(props.AUTHENTICATION_DATA)
        self._attempt = AuthAttempt(self.method, data, self._client.username, None)
        self._attempt.renews = True
        self._began_us = self._broker.uptime_us
        self.is_running = True
        self._broker.counters.authentications += 1
        return self._ask()

    @property
    def is_renamed(self) -> bool:
        """Whether the authentication gives the client a user name that bans were not asked about."""
        return self._client.username != self._named

    def conclude(self, step: AuthStep, code: int) -> None:
        """The authentication has ended: grant an accepted client what its authenticator says, and run the callbacks."""
        if self._is_banned:
            return
        client, counters = self._client, self._broker.counters
        self._broker.times.on_authenticated(self._began_us)
        if code == rc.SUCCESS:
            self._grant(step.grants)
            self._named = client.username
            counters.authentications_succeeded += 1
            if self.is_anonymous:
                counters.authentications_anonymous += 1
        else:
            counters.authentications_failed += 1
        arguments = (client, code, client.is_superuser, self.is_anonymous)
        self._broker.hooks.run(hooks.CLIENT_CHECK_AUTHN_COMPLETE, arguments)

    def _grant(self, grants: Grants | None) -> None:
        """Give the client what it is granted, in the place of what it was granted before."""
        if grants is None:
            if not self._has_granted:
                return
            grants = Grants()
        self._has_granted = True
        client = self._client
        client.is_superuser = grants.is_superuser
        client.acl = grants.acl
        client.expires_at_us = grants.expire_at_ms * 1000
        client.client_attrs = {**self._attrs, **grants.client_attrs} if grants.client_attrs else self._attrs

    def _check_method(self, auth: p.Auth) -> None:
        method = auth.properties.strings.get(props.AUTHENTICATION_METHOD)
        if self.method is None:  # [MQTT-4.12.0-7]
            raise ProtocolError("AUTH from a client whose CONNECT named no authentication method")
        if method != self.method:  # [MQTT-4.12.0-5]
            detail = f"AUTH with authentication method {method!r}; CONNECT named {self.method!r}"
            raise ProtocolError(detail, rc.BAD_AUTHENTICATION_METHOD if method is not None else rc.PROTOCOL_ERROR)

    def _ask(self) -> AuthStep | PendingStep:
        point = self._broker.hooks.point(hooks.CLIENT_AUTHENTICATE)
        # Without a method no answer means yes; a method needs an authenticator.
        begins_with = rc.SUCCESS if self.method is None else rc.BAD_AUTHENTICATION_METHOD  # [MQTT-4.12.0-1]
        verdict, outcome = point.run((self._client, self._attempt), begins_with)
        if isinstance(outcome, PendingChain):
            self._awaited = PendingStep(outcome)
            return self._awaited
        return self._step(verdict, outcome)

    def awaited_step(self) -> AuthStep:
        awaited = self._awaited
        self._awaited = None
        if awaited is None or awaited.outcome is None:
            return AuthStep(rc.SERVER_UNAVAILABLE)
        return self._step(awaited.outcome[0], awaited.outcome[1])

    def _step(self, verdict: str, outcome: object) -> AuthStep:
        self.is_anonymous = verdict == hooks.OK and isinstance(outcome, int)
        return AuthStep(rc.SERVER_UNAVAILABLE) if verdict == hooks.FAILED else as_step(outcome)
