"""From an authenticated client to its open session: reads the session, checks rights, takes the session over."""

from mypy_extensions import i64

from heliograph.broker.authentication import AuthStep
from heliograph.broker.client import ClientInfo
from heliograph.broker.faults import CONNECTIONS
from heliograph.broker.pending import Pending
from heliograph.channel import connect as decide
from heliograph.channel.authorization import Authorizer
from heliograph.channel.context import ChannelContext
from heliograph.channel.handles import ChannelHandle
from heliograph.channel.options import ChannelOptions
from heliograph.channel.subscription_check import SubscriptionCheck
from heliograph.mqtt import packets as p
from heliograph.mqtt import reason_codes as rc
from heliograph.mqtt.errors import ProtocolError
from heliograph.session.outbox import Outbox
from heliograph.session.session import Session


class Admission:
    """An authenticated client, until its session is open; owned by its connect flow.

    Args:
        step: What its authenticator answered last.
        user: The user name that an authenticator has checked, empty for none; None if none has checked the client.

    Attributes:
        denied: The subscriptions of its session that it may not have any more.
        turn: Resolved by its connect flow in another turn, where this one has done enough; None otherwise.
    """

    def __init__(
        self,
        context: ChannelContext,
        options: ChannelOptions,
        client: ClientInfo,
        connect: p.Connect,
        step: AuthStep,
        user: str | None,
    ) -> None:
        self.client = client
        self.connect = connect
        self.step = step
        self._user = user
        self.authorizer = Authorizer(context.broker, client, options)
        self.denied: list[str] = []
        self.turn: Pending[bool] | None = None
        self._context = context
        self._options = options
        self._clean_start = connect.clean_start
        self._is_looked_up = False  # what the disk has of its session was read
        self._check: SubscriptionCheck | None = None  # made when its session has subscriptions that are checked
        self._awaits_rights = False
        self._parting: ChannelHandle | None = None  # what parts with the client now,
        self._parted: ChannelHandle | None = None  # and what has

    def advance(self) -> Pending[bool] | None:
        """Find out what decides about the session, and have another connection part with it.

        Returns:
            What must be waited for; give its answer to `answered` and call this again. None: `open` the session now.
        """
        sessions, client, connect = self._context.sessions, self.client, self.connect
        if not self._is_looked_up:
            lookup = sessions.look_up(client.clientid, connect.clean_start)
            if lookup is not None:
                return lookup
        known = sessions.find(client.clientid)
        if known is not None and known.owner not in (None, self._user) and self._options.bind_session_to_user:
            detail = f"the session of {client.clientid[:200]!r} belongs to another user (mqtt.bind_session_to_user)"
            raise ProtocolError(detail, rc.NOT_AUTHORIZED)
        # Subscriptions of another mountpoint are not this client's.
        self._clean_start = connect.clean_start or (known is not None and known.mountpoint != client.mountpoint)
        if (
            known is not None
            and not self._clean_start
            and self._context.broker.rights.is_asked_about(known.subscriptions)
        ):
            rights = self._ask_rights(known)
            if rights is not None:
                self._awaits_rights = True
                return rights
        return self._take_over()

    def answered(self, answer: bool) -> None:
        """What was waited for is there."""
        parting, awaited_rights = self._parting, self._awaits_rights
        self.turn = None
        self._parting = None
        self._awaits_rights = False
        if parting is None and not awaited_rights:
            if not answer:
                detail = f"the session of {self.client.clientid!r} cannot be read now"
                raise ProtocolError(detail, rc.SERVER_UNAVAILABLE)
            self._is_looked_up = True
            return
        self._is_looked_up = False  # it may have been let go from memory meanwhile
        if parting is not None:
            self._parted = parting
            if not answer:
                raise _held()

    def set_options(self, options: ChannelOptions) -> None:
        self._options = options
        self.authorizer.set_options(options)

    def cancel(self) -> None:
        if self._check is not None:
            self._check.cancel()

    def open(self, outbox: Outbox) -> tuple[Session, bool]:
        """Open the session, for what is sent by `outbox`; whether it was there before."""
        client = self.client
        expiry_s: i64 = decide.session_expiry_s(self.connect, self._options)
        # [MQTT-3.1.4-4] 3.1.1 [MQTT-3.1.4-3]
        session, present = self._context.sessions.open(
            client.clientid, self._clean_start, self._options.session, expiry_s, outbox
        )
        client.expiry_interval_s = session.expiry_interval_s
        session.mountpoint = client.mountpoint
        if client.mountpoint:
            self._context.sessions.has_mountpoints = True
        session.owner = self._user
        return session, present

    def _take_over(self) -> Pending[bool] | None:
        context = self._context
        other = context.channels.find(self.client.clientid)
        if other is None or other is self._parted:
            return None
        try:
            parting = other.take_over(self._clean_start)
        except Exception as error:
            context.broker.faults.contain(CONNECTIONS, error, other.abort)
            raise _held() from error
        if parting is not None:
            self._parting = other
        return parting

    def _ask_rights(self, session: Session) -> Pending[bool] | None:
        """Ask which subscriptions the client may still have: its rights may have changed while it was away."""
        context, check = self._context, self._check
        if check is None:
            check = SubscriptionCheck(context.broker, self.authorizer, self._options.due_us(context.broker.uptime_us))
            self._check = check
        awaited = check.advance(session, context.turns.work_max)
        self.turn = check.turn
        if awaited is None:
            if check.failed:
                detail = f"nothing can say now what {self.client.clientid!r} may still have"
                raise ProtocolError(detail, rc.SERVER_UNAVAILABLE)
            self.denied = check.denied
        return awaited


def _held() -> ProtocolError:
    return ProtocolError("the connection that has its client id cannot be ended now", rc.SERVER_UNAVAILABLE)
