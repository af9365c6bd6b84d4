"""One MQTT connection that blocks: opens it, keeps it alive, waits for messages and answers, ends it."""

from __future__ import annotations

import select
import time
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import Final, Self

from heliograph.client.conversation import BrokerAnswer, ClientConversation, ReceivedMessage
from heliograph.client.errors import DeniedError, LateError, LostError
from heliograph.client.stream import ByteStream
from heliograph.client.target import BrokerTarget
from heliograph.mqtt import packets as p
from heliograph.mqtt import properties as props
from heliograph.mqtt import reason_codes as rc
from heliograph.mqtt.errors import ProtocolError
from heliograph.mqtt.properties import Properties

FOREVER: Final = float("inf")


class ClientConnection:
    """A connection from its CONNECT to its end, used in a `with` block by one thread.

    Args:
        timeout_s: How long connecting, and each answer of the broker, may take.
        log: Called with a line for each packet.

    Raises:
        ClientError: The connection cannot be made, or the broker refuses it.
    """

    def __init__(
        self,
        target: BrokerTarget,
        connect: p.Connect,
        timeout_s: float = 30.0,
        log: Callable[[str], None] | None = None,
    ) -> None:
        self._target = target
        self._timeout_s = timeout_s
        self._keepalive_s = connect.keepalive_s
        self.conversation = ClientConversation(connect, log)
        self._stream: ByteStream = target.open(timeout_s)
        self._sent_at = 0.0
        try:
            deadline = time.monotonic() + timeout_s
            while self.conversation.connack is None:
                self._until(deadline, f"{target} did not answer the CONNECT within {timeout_s:g} s")
        except BaseException:
            self._stream.close()
            raise
        self._keepalive_s = self.connack.properties.number(props.SERVER_KEEP_ALIVE, self._keepalive_s)

    @property
    def connack(self) -> p.Connack:
        """The broker's answer to CONNECT."""
        assert self.conversation.connack is not None
        return self.conversation.connack

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stream.close()

    def messages(self, deadline: float = FOREVER) -> list[ReceivedMessage]:
        """Messages that came; none when the time has come.

        Args:
            deadline: That time, on the clock of `time.monotonic`.
        """
        waiting = self.conversation.messages
        while not waiting and time.monotonic() < deadline:
            self.wait(deadline)
        taken = list(waiting)
        waiting.clear()
        return taken

    def answer(self) -> BrokerAnswer:
        """The broker's next answer to a PUBLISH, SUBSCRIBE or UNSUBSCRIBE.

        Raises:
            LateError: There is none in time.
        """
        deadline = time.monotonic() + self._timeout_s
        while not self.conversation.answers:
            self._until(deadline, f"{self._target} acknowledged nothing for {self._timeout_s:g} s")
        return self.conversation.answers.popleft()

    def wait(self, deadline: float, other_file: int | None = None) -> bool:
        """Wait until something came, or another file can be read, or the time has come; send what is to be sent.

        Returns:
            Whether the other file can be read.

        Raises:
            LostError: The connection ended.
            DeniedError: The broker ended it, and said why.
        """
        self.flush()
        files = [self._stream.fileno(), *([] if other_file is None else [other_file])]
        readable, _, _ = select.select(files, [], [], self._patience(deadline))
        if self._stream.fileno() in readable:
            self._receive()
        self._keep_alive()
        self.flush()
        return other_file in readable

    def flush(self) -> None:
        """Send what is to be sent.

        Raises:
            LostError: The connection ended.
        """
        data = self.conversation.take()
        if not data:
            return
        self._sent_at = time.monotonic()
        try:
            self._stream.send(data)
        except OSError as error:
            self._on_end(str(error))

    def disconnect(self, code: int, properties: Properties) -> None:
        """Say that the client goes; a connection that is gone already makes no difference."""
        self.conversation.disconnect(code, properties)
        with suppress(LostError, DeniedError):
            self.flush()

    def _until(self, deadline: float, complaint: str) -> None:
        if time.monotonic() >= deadline:
            raise LateError(complaint)
        self.wait(deadline)

    def _receive(self) -> None:
        try:
            data = self._stream.receive()
        except OSError as error:
            self._on_end(str(error))
            return
        try:
            if data:
                self.conversation.receive(data)
        except ProtocolError as error:
            hint = "" if self.conversation.connack is not None else "; is that its port for this transport?"
            raise LostError(f"{self._target} breaks the protocol: {error}{hint}") from None
        if data is None or self.conversation.farewell is not None:
            self._on_end("closed by the other side")

    def _on_end(self, why: str) -> None:
        farewell = self.conversation.farewell
        if farewell is not None:
            what = "the broker ended the connection"
            raise DeniedError(what, farewell.code or rc.UNSPECIFIED_ERROR, farewell.properties, p.V5)
        raise LostError(f"the connection to {self._target} was lost: {why}")

    def _patience(self, deadline: float) -> float | None:
        now = time.monotonic()
        times = [deadline - now] if deadline != FOREVER else []
        if self._keepalive_s:
            times.append(self._sent_at + self._keepalive_s - now)  # [MQTT-3.1.2-20]
        return max(min(times), 0.0) if times else None

    def _keep_alive(self) -> None:
        if not self._keepalive_s or time.monotonic() < self._sent_at + self._keepalive_s:
            return
        if self.conversation.pings_unanswered:
            raise LostError(f"{self._target} did not answer a PINGREQ within {self._keepalive_s} s")
        self.conversation.ping()
