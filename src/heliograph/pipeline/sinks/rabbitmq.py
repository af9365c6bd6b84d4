"""The sink `rabbitmq`: rows as messages in RabbitMQ and what else speaks AMQP 0-9-1, each confirmed by the broker.

pika's blocking connection waits for the confirmation of each message before the next, which costs a round trip for
each; so a connection here runs pika's event loop until the many messages that were sent are confirmed.
"""

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any, Final, Self

from heliograph.outbound import SocketAddress
from heliograph.outbound.rabbitmq import RabbitmqLogin, parameters_of, rabbitmq_cause, rabbitmq_text
from heliograph.pipeline.errors import SinkError
from heliograph.pipeline.sinks.interface import INSTALL
from heliograph.pipeline.sinks.messages import MessageLink, MessageSink, OnTheirWay, OutgoingMessage
from heliograph.pipeline.sinks.retry import TransientError
from heliograph.pipeline.sinks.rows import Derived
from heliograph.pipeline.sinks.template import placeholders
from heliograph.pipeline.tls import tls_context
from heliograph.settings.addresses import ServerAddress
from heliograph.settings.fields import optional, required, setting
from heliograph.settings.kinds import AnyText, Choice, Duration, Text
from heliograph.settings.units import Address

PERSISTENT: Final = "persistent"
_EXCHANGE: Final = "exchange"
_KEY: Final = "routing_key"
_PAYLOAD: Final = "payload"
_NAME_BYTES_MAX: Final = 255
_ON_THEIR_WAY_MAX: Final = 1000
_CLOSE_S: Final = 2.0
_MODES: Final = {"non_persistent": 1, PERSISTENT: 2}
# Replies that no other try changes: who connects, whereto.
_ACCESS_REFUSED: Final = 403
_NOT_FOUND: Final = 404
_NOT_ALLOWED: Final = 530
# Replies that close a channel because of one message.
_CONTENT_TOO_LARGE: Final = 311
_PRECONDITION_FAILED: Final = 406


@dataclass(frozen=True, kw_only=True)
class RabbitmqSink(MessageSink):
    server: Address = required(ServerAddress(5672), "Where the broker is.")
    virtual_host: str = setting(Text("the name of a virtual host"), "/", "The virtual host.")
    exchange: str = required(
        AnyText("a template of an exchange"),
        "Template of the exchange; empty is the one that knows each queue by name.",
    )
    routing_key: str = required(AnyText("a template of a routing key"), "Template of the routing key.")
    payload: str | None = optional(Text("a template"), "Template of the body; without, the row as JSON.")
    delivery_mode: str = setting(
        Choice("non_persistent", PERSISTENT), PERSISTENT, "Whether durable queues keep it over a restart of the broker."
    )
    heartbeat_s: float = setting(
        Duration(1.0, 3600.0, needs_unit=True), 30.0, "How soon a lost connection is noticed.", name="heartbeat"
    )
    timeout_s: float = setting(
        Duration(0.001, needs_unit=True), 30.0, "How long confirmations may take.", name="timeout"
    )

    @property
    def target(self) -> str:
        return f"RabbitMQ exchange {self.exchange or '(default)'} at {self.server}"

    @property
    def derived(self) -> Sequence[Derived]:
        return (
            Derived(_EXCHANGE, self.exchange, _EXCHANGE, is_text=True),
            Derived(_KEY, self.routing_key, _KEY, is_text=True),
            Derived(_PAYLOAD, self.payload, _PAYLOAD),
        )

    @property
    def is_addressed_by_row(self) -> bool:
        """Whether a row says where its message goes, so that the row is at fault where that is nowhere."""
        return bool(placeholders(self.exchange) or placeholders(self.routing_key))

    def message_of(self, chunk: dict[str, list[Any]], index: int) -> tuple[str, bytes, dict[str, str]]:
        exchange, key = chunk[_EXCHANGE][index], chunk[_KEY][index]
        for name, text in ((_EXCHANGE, exchange), (_KEY, key)):
            if len(text.encode()) > _NAME_BYTES_MAX:
                raise ValueError(f"{name} has more than {_NAME_BYTES_MAX} bytes: {text[:50]}...")
        return exchange, chunk[_PAYLOAD][index], {_KEY: key}

    def connected(self) -> AbstractContextManager[MessageLink]:
        return RabbitmqLink(self)


class RabbitmqLink:
    """One connection and its channel. Owned by the thread that enters it, which runs its event loop."""

    def __init__(self, sink: RabbitmqSink) -> None:
        try:
            import pika
        except ImportError as error:
            raise SinkError(f"RabbitMQ needs pika: {INSTALL}") from error
        logging.getLogger("pika").setLevel(logging.CRITICAL)  # what it would log is in our errors
        self._pika = pika
        self._sink = sink
        self._connection: Any = None
        self._channel: Any = None
        self._lost: BaseException | None = None
        self._channel_fault: BaseException | None = None
        self._is_confirming = False
        self._tags: dict[int, int] = {}
        self._sent = 0
        self._returned: dict[str, str] = {}
        self._rejected: set[int] = set()

    def __enter__(self) -> Self:
        problem: TransientError | None = None
        for address in self._sink.addresses_of(self._sink.server):
            try:
                self._connect(address)
                self._open_channel()
            except TransientError as error:
                self._close()
                problem = error
            except BaseException:
                self._close()
                raise
            else:
                return self
        assert problem is not None  # there is one address at least
        raise problem

    def __exit__(self, *_error: object) -> None:
        self._close()

    def __repr__(self) -> str:
        return f"RabbitmqLink({self._sink.server})"

    # --- messages

    def send(self, outgoing: OnTheirWay) -> None:
        numbers = list(outgoing.waiting)
        for begin in range(0, len(numbers), _ON_THEIR_WAY_MAX):
            window = numbers[begin : begin + _ON_THEIR_WAY_MAX]
            if self._publish(window, outgoing) is None:
                continue
            # Which of them the broker minds it does not say: it tells that of each alone.
            for number in window:
                if number in outgoing.waiting and (fault := self._publish([number], outgoing)) is not None:
                    self._judge(number, fault, outgoing)

    def check_exchange(self, exchange: str) -> None:
        """Raise `SinkError` where there is no such exchange."""
        declared: list[bool] = []
        self._channel.exchange_declare(exchange, passive=True, callback=_noting(declared, self._connection.ioloop))
        self._run(lambda: bool(declared) or self._channel_fault is not None)
        if self._channel_fault is not None:
            raise SinkError(f"{self._sink.target}: {rabbitmq_text(self._channel_fault)}")

    def _publish(self, numbers: Sequence[int], outgoing: OnTheirWay) -> BaseException | None:
        """Publish some messages; returns why the broker closed the channel, if it did."""
        if self._channel_fault is not None:
            self._open_channel()
        by_identity = {outgoing.waiting[number].identity: number for number in numbers}
        for number in numbers:
            self._sent += 1
            self._tags[self._sent] = number
            self._publish_one(outgoing.waiting[number])
        self._run(lambda: not self._tags or self._channel_fault is not None)
        returned = {by_identity[identity]: reason for identity, reason in self._returned.items()}
        self._returned.clear()
        unconfirmed = set(self._tags.values())
        self._tags.clear()
        for number in numbers:
            if number in returned:
                self._refuse(number, f"no queue takes it: {returned[number]}", outgoing)
            elif number in self._rejected:
                outgoing.problem = "the broker did not confirm it (basic.nack): a queue is full, or failed"
            elif number not in unconfirmed:
                outgoing.take(number)
        self._rejected.clear()
        return self._channel_fault

    def _publish_one(self, message: OutgoingMessage) -> None:
        mode = _MODES[self._sink.delivery_mode]
        properties = self._pika.BasicProperties(message_id=message.identity, delivery_mode=mode)
        with self._translated():
            self._channel.basic_publish(message.place, message.headers[_KEY], message.body, properties, mandatory=True)

    def _judge(self, number: int, fault: BaseException, outgoing: OnTheirWay) -> None:
        code = getattr(fault, "reply_code", 0)
        if code in (_CONTENT_TOO_LARGE, _PRECONDITION_FAILED):
            outgoing.refuse(number, rabbitmq_text(fault))
        elif code in (_NOT_FOUND, _ACCESS_REFUSED):
            self._refuse(number, rabbitmq_text(fault), outgoing)
        else:
            raise TransientError(f"{self._sink.target}: {rabbitmq_text(fault)}")

    def _refuse(self, number: int, reason: str, outgoing: OnTheirWay) -> None:
        """Refuse a message whose row has said where it goes; of others the settings are at fault, or the broker's."""
        if not self._sink.is_addressed_by_row:
            raise SinkError(f"{self._sink.target}: {reason}")
        outgoing.refuse(number, reason)

    # --- the connection

    def _connect(self, address: SocketAddress) -> None:
        pika, sink = self._pika, self._sink
        tls = tls_context(sink.tls, SinkError) if sink.tls is not None else None
        login = RabbitmqLogin(sink.virtual_host, sink.heartbeat_s, sink.username, sink.password_text, tls)
        parameters = parameters_of(address, sink.server.host, login, sink.timeout_s, sink.declared_at)
        self._lost = None
        self._connection = pika.SelectConnection(
            parameters,
            on_open_callback=self._stop,
            on_open_error_callback=self._on_lost,
            on_close_callback=self._on_lost,
        )
        self._run(lambda: bool(self._connection.is_open))

    def _open_channel(self) -> None:
        self._channel_fault, self._is_confirming, self._sent = None, False, 0
        with self._translated():
            self._connection.channel(on_open_callback=self._on_channel)
        self._run(lambda: self._is_confirming)

    def _close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is None:
            return
        late: list[bool] = []
        connection.ioloop.call_later(_CLOSE_S, _noting(late, connection.ioloop))
        self._channel = None
        if connection.is_open:
            connection.close()
        while not connection.is_closed and not late:
            connection.ioloop.start()
        connection.ioloop.close()

    def _run(self, is_done: Callable[[], bool]) -> None:
        """Run the event loop until something is done.

        Raises:
            SinkError: The broker refuses the connection.
            TransientError: The connection is lost, or it takes too long.
        """
        loop = self._connection.ioloop
        late: list[bool] = []
        timer = loop.call_later(self._sink.timeout_s, _noting(late, loop))
        try:
            while not is_done():
                if self._lost is not None:
                    raise self._loss(self._lost)
                if late:
                    raise TransientError(f"{self._sink.target}: no answer in {self._sink.timeout_s:g} s")
                loop.start()
        finally:
            loop.remove_timeout(timer)

    @contextmanager
    def _translated(self) -> Iterator[None]:
        """pika refuses what is asked of a connection that was lost since."""
        try:
            yield
        except self._pika.exceptions.AMQPError as error:
            raise TransientError(f"{self._sink.target}: {rabbitmq_text(error)}") from error

    def _loss(self, error: BaseException) -> Exception:
        exceptions = self._pika.exceptions
        is_lasting = isinstance(error, exceptions.ProbableAuthenticationError | exceptions.ProbableAccessDeniedError)
        code = getattr(error, "reply_code", 0)
        text = f"{self._sink.target}: {rabbitmq_text(error)}"
        if is_lasting or code in (_ACCESS_REFUSED, _NOT_FOUND, _NOT_ALLOWED):
            return SinkError(text)
        return TransientError(text)

    # --- what pika calls

    def _stop(self, *_: object) -> None:
        self._connection.ioloop.stop()

    def _on_lost(self, connection: Any, error: BaseException) -> None:
        self._lost = rabbitmq_cause(error)
        connection.ioloop.stop()

    def _on_channel(self, channel: Any) -> None:
        self._channel = channel
        channel.add_on_close_callback(self._on_channel_closed)
        channel.add_on_return_callback(self._on_return)
        channel.confirm_delivery(self._on_confirmation, callback=self._on_confirming)

    def _on_confirming(self, frame: object) -> None:
        self._is_confirming = True
        self._stop()

    def _on_channel_closed(self, channel: Any, reason: BaseException) -> None:
        if channel is self._channel:
            if isinstance(reason, self._pika.exceptions.ChannelClosedByBroker):
                self._channel_fault = reason
            else:  # with its connection
                self._lost = rabbitmq_cause(reason)
            channel.connection.ioloop.stop()

    def _on_return(self, channel: Any, method: Any, properties: Any, body: bytes) -> None:
        self._returned[properties.message_id] = f"{method.reply_code} {method.reply_text}"

    def _on_confirmation(self, frame: Any) -> None:
        method = frame.method
        tags = [tag for tag in self._tags if tag <= method.delivery_tag] if method.multiple else [method.delivery_tag]
        for tag in tags:
            number = self._tags.pop(tag, None)
            if number is not None and isinstance(method, self._pika.spec.Basic.Nack):
                self._rejected.add(number)
        if not self._tags:
            self._stop()


def _noting(noted: list[bool], loop: Any) -> Callable[..., None]:
    """A callback that notes that it was called, and ends the turn of the event loop."""

    def note(*_: object) -> None:
        noted.append(True)
        loop.stop()

    return note
