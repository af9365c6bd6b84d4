"""How a chain of callbacks runs: by priority, past those that raise, and waiting for those that answer later."""

from collections.abc import Callable
from typing import Final, Generic, TypeVar

from heliograph.broker.message import Message
from heliograph.broker.pending import Pending
from heliograph.broker.tracer import Tracer

OK: Final = "ok"
STOP: Final = "stop"
FAILED: Final = "failed"  # a chain's verdict where it fails closed and a callback raised; no callback answers it
WAITS: Final = "waits"  # a chain's verdict where a callback has yet to answer; the accumulator is a `PendingChain`

# What a callback that raises, or does not answer in time, means for its chain.
OPEN: Final = "open"  # it goes on as if the callback were not there
CLOSED: Final = "closed"  # it has failed, whatever the others say
CLOSED_UNLESS_DECIDED: Final = "closed unless decided"  # it has failed, unless a later callback ends it

Callback = Callable[..., object]
RewriteOnly = Callable[[Message], Message | None]
CallbackT = TypeVar("CallbackT", bound=Callable[..., object])


class Refusal:
    """Returned by a callback of `message.publish`, with `STOP`, to drop a message.

    Args:
        reason: The reason for `message.dropped`; empty if that is not called, because nothing is lost.
        code: The reason code of the acknowledgement; MQTT 3 has none that refuses, and gets an ordinary one.
        disconnects: Whether the publisher's connection ends, with a DISCONNECT of that code.
        may_repeat: Whether the message would be taken later: at QoS 1 and 2 MQTT 3 gets no acknowledgement, its
            connection ends and its client repeats; a will is kept and published again.
    """

    def __init__(self, reason: str, code: int, disconnects: bool, may_repeat: bool = False) -> None:
        self.reason = reason
        self.code = code
        self.disconnects = disconnects
        self.may_repeat = may_repeat

    def __repr__(self) -> str:
        return f"Refusal({self.reason!r}, 0x{self.code:02x}, disconnects={self.disconnects})"


class DeferredAck(Refusal):
    """What a callback of `message.publish` takes a message with, beside `STOP`, whose publisher it answers later.

    The message goes no further. Its PUBACK or PUBREC waits for `done`, and those of the client's later messages wait
    behind it, while the messages themselves are handled. At QoS 0, and where the broker publishes, nothing waits.

    Args:
        done: Resolved with the reason code of the acknowledgement; MQTT 3 gets an ordinary one for each. It is waited
            for as long as `mqtt.idle_timeout` says, unless it has a deadline: then MQTT 5 learns that the message was
            refused, and the connection of an MQTT 3 client ends, so that it repeats it. Cancelled when the client goes.
    """

    def __init__(self, done: Pending[int]) -> None:
        super().__init__("", 0, False)
        self.done = done


class Chain:
    """The callbacks of one hook point in their order; empty while none is hooked in, which is all the hot path asks.

    Args:
        may_wait: Whether callbacks may answer with a `Pending`.
        on_failure: Called with the hook point's name and the exception when a callback raised.

    Attributes:
        tracer: Takes verdicts; None while no trace is on.
    """

    def __init__(
        self, name: str, fails: str, may_wait: bool, on_failure: Callable[[str, Exception], object] | None
    ) -> None:
        self.name = name
        self.fails = fails
        self.may_wait = may_wait
        self.callbacks: list[Callback] = []
        self.failures_count = 0
        self.tracer: Tracer | None = None
        self._on_failure = on_failure

    def run(self, args: tuple[object, ...], accumulator: object = None) -> tuple[str, object]:
        """Run the chain.

        Returns:
            `(OK, accumulator)` when it came to its end, `(STOP, accumulator)` when one stopped it,
            `(FAILED, accumulator)` when one raised at a hook point that fails closed, and `(WAITS, PendingChain)` when
            one has yet to answer at a hook point that may wait.
        """
        return self.go_on(list(self.callbacks), args, accumulator, False)

    def go_on(
        self,
        callbacks: list[Callback],
        args: tuple[object, ...],
        accumulator: object,
        has_failed: bool,
        at: int = 0,
    ) -> tuple[str, object]:
        """Run a chain from one of its callbacks on; see `run`."""
        arguments = (*args, accumulator)
        tracer = self.tracer
        if tracer is not None and not tracer.is_about(self.name, arguments):
            tracer = None
        while at < len(callbacks):
            callback = callbacks[at]
            at += 1
            try:
                verdict = callback(*arguments)
                if tracer is not None:
                    tracer.on_verdict(self.name, callback, arguments, verdict)
                if verdict is None:  # most only take notice
                    continue
                if isinstance(verdict, Pending):
                    verdict = self._answered(verdict)
                if isinstance(verdict, tuple):
                    verdict, accumulator = verdict
                    arguments = (*args, accumulator)
            except Exception as error:  # noqa: BLE001 - the chain is the boundary to code of others
                self.report(error)
                if tracer is not None:
                    tracer.on_verdict(self.name, callback, arguments, error)
                has_failed = self.fails != OPEN
                continue
            if verdict == STOP:
                return self.ended(has_failed), accumulator
            if isinstance(verdict, Pending):
                return WAITS, PendingChain(self, callbacks, args, accumulator, has_failed, at, verdict)
        return (FAILED if has_failed else OK), accumulator

    def ended(self, has_failed: bool) -> str:
        return FAILED if has_failed and self.fails == CLOSED else STOP

    def _answered(self, pending: Pending[object]) -> object:
        if not self.may_wait:
            pending.cancel()
            raise TypeError(f"a callback of {self.name} may not answer later")
        if pending.is_awaited:
            raise TypeError(f"a callback of {self.name} gave the answer to another question: each has its own")
        return pending.answer if pending.is_resolved else pending

    def report(self, error: Exception) -> None:
        self.failures_count += 1
        if self._on_failure is not None:
            self._on_failure(self.name, error)


class HookPoint(Chain, Generic[CallbackT]):
    """One hook point and its callbacks; owned by `Hooks`."""

    def __init__(
        self,
        name: str,
        fails: str = OPEN,
        may_wait: bool = False,
        on_failure: Callable[[str, Exception], object] | None = None,
    ) -> None:
        super().__init__(name, fails, may_wait, on_failure)
        self._priorities: list[int] = []
        self._wants: list[Callable[[str], bool] | None] = []
        self._rewrites: list[RewriteOnly | None] = []
        self.on_change: Callable[[], None] | None = None  # called when callbacks come or go

    def add(
        self,
        callback: CallbackT,
        priority: int = 0,
        wants: Callable[[str], bool] | None = None,
        rewrite_only: RewriteOnly | None = None,
    ) -> None:
        """Put a callback into the chain: higher priorities run first, equal ones in the order they came.

        Args:
            wants: At `message.publish`, which topics the callback is for; None for all. It is asked when a topic is
                routed for the first time, so that messages of other topics pay nothing. A chain that runs because one
                callback wants the topic runs whole: each must look for itself too. At
                `client.check_authz_complete` it is asked once for "allow", "deny" and "cache": whether the callback is
                for decisions that allow or deny something, and for those that a connection remembered.
            rewrite_only: At `message.publish`, for a callback that changes messages: returns the changed message, or
                None if the callback drops it, without side effects. Called when a client repeats a QoS 2 message, to
                find out whether it was stored before a crash.
        """
        at = 0
        while at < len(self._priorities) and self._priorities[at] >= priority:
            at += 1
        self._priorities.insert(at, priority)
        self.callbacks.insert(at, callback)
        self._wants.insert(at, wants)
        self._rewrites.insert(at, rewrite_only)
        if self.on_change is not None:
            self.on_change()

    def remove(self, callback: CallbackT) -> None:
        """Take a callback out; one that is not there is ignored."""
        if callback in self.callbacks:
            at = self.callbacks.index(callback)
            del self.callbacks[at]
            del self._priorities[at]
            del self._wants[at]
            del self._rewrites[at]
            if self.on_change is not None:
                self.on_change()

    def renew(self) -> None:
        """Ask the callbacks again which topics they are for, after the answer of one of them changed."""
        if self.on_change is not None:
            self.on_change()

    def priority_of(self, callback: Callback) -> int | None:
        """The priority that a callback was added with; None if it is not in the chain."""
        return self._priorities[self.callbacks.index(callback)] if callback in self.callbacks else None

    def is_for(self, callback: Callback, topic: str) -> bool:
        """Whether a callback of the chain is for messages of that topic; False if it is not in the chain."""
        if callback not in self.callbacks:
            return False
        wants = self._wants[self.callbacks.index(callback)]
        return wants is None or wants(topic)

    def is_wanted(self, topic: str) -> bool:
        """Whether a callback of the chain is for messages of that topic."""
        return any(wants is None or wants(topic) for wants in self._wants)

    def rewritten(self, message: Message) -> Message | None:
        """The message as the callbacks would change it, None where one drops it; without side effects."""
        for rewrite_only in list(self._rewrites):
            if rewrite_only is None:
                continue
            try:
                outcome = rewrite_only(message)
            except Exception as error:  # noqa: BLE001 - as in `run`
                self.report(error)
                continue
            if outcome is None:
                return None
            message = outcome
        return message


class LateAnswerError(Exception):
    """A callback did not answer before its deadline."""


class PendingChain(Pending[tuple[str, object]]):
    """A chain that waits for a callback; resolved with the verdict and the accumulator of the whole chain.

    Args:
        awaited: The answer that the callback before it gives later.
    """

    def __init__(
        self,
        point: Chain,
        callbacks: list[Callback],
        args: tuple[object, ...],
        accumulator: object,
        has_failed: bool,
        at: int,
        awaited: Pending[object],
    ) -> None:
        super().__init__()
        self._point = point
        self._callbacks = callbacks
        self._args = args
        self._accumulator = accumulator
        self._has_failed = has_failed
        self._at = at
        self._awaited: Pending[object] = awaited
        self._rest: PendingChain | None = None  # what is left of the chain, where one of it must wait too
        awaited.then(self._on_answer)

    def expire(self) -> None:
        """The deadline has passed: go on as if the callback had raised."""
        rest = self._rest
        if rest is not None:
            rest.expire()
            return
        self._stop_looking()
        self._fail(LateAnswerError(f"a callback of {self._point.name} has not answered in time"))

    def cancel(self) -> None:
        super().cancel()
        self._stop_looking()
        if self._rest is not None:
            self._rest.cancel()

    def _stop_looking(self) -> None:
        try:
            self._awaited.cancel()
        except Exception as error:  # noqa: BLE001 - as in `Chain.go_on`: what waited ends or goes on
            self._point.report(error)

    def _on_answer(self, answer: object) -> None:
        if self.is_cancelled:
            return
        self._trace(answer)
        verdict = answer
        try:
            if isinstance(answer, tuple):
                verdict, self._accumulator = answer
        except ValueError as error:
            self._fail(error)
            return
        if verdict == STOP:
            self.resolve((self._point.ended(self._has_failed), self._accumulator))
        else:
            self._go_on()

    def _fail(self, error: Exception) -> None:
        self._trace(error)
        self._point.report(error)
        self._has_failed = self._point.fails != OPEN
        self._go_on()

    def _trace(self, verdict: object) -> None:
        """Report the verdict of the callback that was waited for."""
        tracer, arguments = self._point.tracer, (*self._args, self._accumulator)
        if tracer is not None and tracer.is_about(self._point.name, arguments):
            tracer.on_verdict(self._point.name, self._callbacks[self._at - 1], arguments, verdict)

    def _go_on(self) -> None:
        outcome = self._point.go_on(self._callbacks, self._args, self._accumulator, self._has_failed, self._at)
        rest = outcome[1]
        if outcome[0] == WAITS and isinstance(rest, PendingChain):
            self._rest = rest
            rest.then(self.resolve)
        else:
            self.resolve(outcome)
