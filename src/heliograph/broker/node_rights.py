"""Who may do what, as the kernel asks: the node's own authorization, the callbacks of `client.authorize`, the default.

Most nodes have only their own authorization. It is asked directly then, without a chain: no list of callbacks is
copied and no arguments are gathered for a PUBLISH.
"""

from collections.abc import Callable, Iterable
from typing import Final

from mypy_extensions import i64, mypyc_attr

from heliograph.broker.actions import (
    ALLOWED_BY_DEFAULT,
    CLOSED_BY_DEFAULT,
    FAILED_CHECK,
    SUBSCRIBE,
    Action,
    Decision,
    as_decision,
)
from heliograph.broker.client import ClientInfo
from heliograph.broker.hook_chain import FAILED, STOP, HookPoint, PendingChain
from heliograph.broker.hook_order import ACCESS
from heliograph.broker.hooks import AuthzCompleteCallback, ClientAuthorizeCallback, Hooks
from heliograph.mqtt.topic import bare_filter, is_client_event

# What an authority answers where the answer takes longer: the callbacks are run, and may wait.
WAIT: Final = Decision(False, "wait")


@mypyc_attr(allow_interpreted_subclasses=True)
class Authority:
    """The node's own authorization, as the kernel asks it; owned by its part, which gives it to `NodeRights`.

    Attributes:
        may_change_unseen: Whether rights may change without a call of `NodeRights.drop_cached`, as those in a database
            do: what clients are subscribed to is then checked again as often as `authorization.cache.ttl` says.
    """

    def __init__(self) -> None:
        self.may_change_unseen = False

    def decide(self, client: ClientInfo, action: Action, topic: str) -> Decision | None:
        """What the client may do, by what is in memory; None if no source decides, `WAIT` if a source must be asked.

        Called for a PUBLISH whose decision is not remembered, and for each filter of a SUBSCRIBE; must not block.
        Superusers are not asked about.
        """
        raise NotImplementedError(type(self).__name__)

    def decide_now(self, client: ClientInfo, action: Action, topic: str) -> Decision | None:
        """The same for messages that a wildcard of the client matches.

        These cannot wait: what is known of the client will do, even if it is to be asked for again. `WAIT` only if
        nothing is known yet.
        """
        return self.decide(client, action, topic)

    def decide_known(self, client: ClientInfo, action: Action, topic: str) -> Decision | None:
        """The same for a client that is not connected, as the publisher of a retained message; nothing is asked for it.

        `WAIT` if something would have to be asked.
        """
        return self.decide(client, action, topic)

    def carried(self, client: ClientInfo, action: Action, topic: str) -> Decision | None:
        """What the rights say that a client carries since it was authenticated; None if they leave it to others."""
        return None

    def renew(self, client: ClientInfo) -> None:
        """Ask for the rules of a client again before the next decision, where they may have changed unseen."""

    def on_authorize(self, client: ClientInfo, action: Action, topic: str, outcome: object) -> object:
        """The same as a callback of `client.authorize`: answers `(STOP, Decision)`, None, or with a `Pending`.

        Called instead of `decide` where that answers `WAIT`, where other callbacks are hooked in, and while a trace
        records verdicts.
        """
        raise NotImplementedError(type(self).__name__)


class NodeRights:
    """How one node decides what clients may do; owned by the broker.

    Attributes:
        is_checked: Whether anything may be denied, so that clients are checked at all.
        checks_deliveries: Whether messages are checked that a wildcard of a client matches.
        closes_client_events: Whether clients get events of clients (`mqtt.topic.is_client_event`) only where something
            allows it, whatever `no_match` is.
        wants_cached: Whether a callback of `client.check_authz_complete` wants decisions that were remembered.
        is_lasting: Whether what the node's own authorization decides about a client by its sources holds until the
            epoch rises: nothing else decides, and all sources say when their rules change.
        no_match: The decision where nothing decides.
        epoch: Rises when what connections remember does not hold any more.
        on_dropped: Called then; checks again what clients are subscribed to.
    """

    def __init__(self, hooks: Hooks) -> None:
        self._authorize: HookPoint[ClientAuthorizeCallback] = hooks.client_authorize
        self._complete: HookPoint[AuthzCompleteCallback] = hooks.client_check_authz_complete
        self._authority: Authority | None = None
        self._sole: Authority | None = None  # the authority, while nothing else is hooked in
        self.no_match: Decision = ALLOWED_BY_DEFAULT
        self.is_checked = False
        self.checks_deliveries = False
        self.closes_client_events = False
        self._wants_deliveries = True
        self.wants_cached = False
        self.wants_allowed = False
        self.wants_denied = False
        self.is_lasting = False
        self.epoch: i64 = 0
        self.on_dropped: Callable[[], None] | None = None
        self._authorize.on_change = self._on_change
        self._complete.on_change = self._on_change
        self._on_change()

    def set_authority(self, authority: Authority | None) -> None:
        before = self._authority
        self._authority = authority
        if before is not None:
            self._authorize.remove(before.on_authorize)
        if authority is not None:
            self._authorize.add(authority.on_authorize, ACCESS)
        self.drop_cached()

    def set_no_match(self, decision: Decision) -> None:
        self.no_match = decision
        self._on_change()
        self.drop_cached()

    def check_deliveries(self, wanted: bool) -> None:
        """Say whether messages are checked that a wildcard of a client matches; else it has what its filter matches."""
        self._wants_deliveries = wanted
        self._on_change()

    def default(self, client: ClientInfo, action: Action, topic: str) -> Decision:
        """The decision where nothing decides."""
        if (
            action.kind == SUBSCRIBE and self.is_closed(topic) and not client.mountpoint
        ):  # else it is a topic of its own
            return CLOSED_BY_DEFAULT
        return self.no_match

    def is_closed(self, topic: str) -> bool:
        """Whether it is an event of clients, which they get only where something allows it."""
        return self.closes_client_events and is_client_event(topic)

    def is_default(self, decision: Decision) -> bool:
        return decision is self.no_match or decision is CLOSED_BY_DEFAULT

    def is_asked_about(self, names: Iterable[str]) -> bool:
        """Whether any of these subscriptions, which may be shared ones, may be denied."""
        if self.is_checked:
            return True
        return any(name.startswith("$") and self.is_closed(bare_filter(name)) for name in names)

    @property
    def may_change_unseen(self) -> bool:
        """Whether rights may change and nothing says so; see `Authority`."""
        return self._authority is not None and self._authority.may_change_unseen

    def renew(self, client: ClientInfo) -> None:
        """Ask again for what may have changed unseen; see `Authority`."""
        if self._authority is not None:
            self._authority.renew(client)

    def drop_cached(self) -> None:
        """Let no connection rely on what was decided before, and check again what clients are subscribed to."""
        self.epoch += 1
        if self.on_dropped is not None:
            self.on_dropped()

    def ask(
        self, client: ClientInfo, action: Action, topic: str, is_for_message: bool = False
    ) -> Decision | PendingChain:
        """Ask whether a client, no superuser, may do something; a `PendingChain` if that takes longer.

        Runs no callbacks of `client.check_authz_complete`.

        Args:
            is_for_message: Whether a message is handed out or held back by the answer, and cannot wait for it.
        """
        authority, point = self._sole, self._authorize
        if authority is not None and point.tracer is None:
            try:
                if is_for_message:
                    decision = authority.decide_now(client, action, topic)
                else:
                    decision = authority.decide(client, action, topic)
            except Exception as error:  # noqa: BLE001 - as in `Chain.go_on`
                point.report(error)
                return FAILED_CHECK
            if decision is None:
                return self.default(client, action, topic)
            if decision is not WAIT:
                return decision
        default = self.default(client, action, topic)
        verdict, outcome = point.run((client, action, topic), default)
        if isinstance(outcome, PendingChain):
            return outcome
        if outcome is default and point.tracer is not None:
            arguments = (client, action, topic, outcome)
            if point.tracer.is_about(point.name, arguments):
                point.tracer.on_verdict(point.name, no_match, arguments, (STOP, outcome))
        return concluded(verdict, outcome)

    def known(self, client: ClientInfo, action: Action, topic: str) -> Decision | None:
        """What a client that is not connected may do; None if nothing in memory says so."""
        authority, point = self._sole, self._authorize
        if authority is None or point.tracer is not None:
            outcome = self.ask(client, action, topic)
            if isinstance(outcome, Decision):
                return outcome
            outcome.cancel()
            return None
        try:
            decision = authority.decide_known(client, action, topic)
        except Exception as error:  # noqa: BLE001 - as in `Chain.go_on`
            point.report(error)
            return FAILED_CHECK
        if decision is WAIT:
            return None
        return self.default(client, action, topic) if decision is None else decision

    def carried(self, client: ClientInfo, action: Action, topic: str) -> Decision | None:
        """What the rights that a client carries say; see `Authority`."""
        return None if self._authority is None else self._authority.carried(client, action, topic)

    def tell(self, client: ClientInfo, action: Action, topic: str, decision: Decision) -> None:
        if self.wants_allowed if decision.is_allowed else self.wants_denied:
            self._complete.run((client, action, topic, decision))

    def _on_change(self) -> None:
        authority, callbacks = self._authority, self._authorize.callbacks
        self.is_checked = len(callbacks) > 0 or not self.no_match.is_allowed
        self.checks_deliveries = self.is_checked and self._wants_deliveries
        self._sole = authority if authority is not None and len(callbacks) == 1 else None
        self.is_lasting = self._sole is not None and not self.may_change_unseen
        self.wants_cached = self._complete.is_wanted("cache")
        self.wants_allowed = self._complete.is_wanted("allow")
        self.wants_denied = self._complete.is_wanted("deny")


def no_match(*_asked: object) -> None:
    """What traces name where `authorization.no_match` decides."""


def concluded(verdict: str, outcome: object) -> Decision:
    """The decision of a chain that has come to its end."""
    return FAILED_CHECK if verdict == FAILED else as_decision(outcome)
