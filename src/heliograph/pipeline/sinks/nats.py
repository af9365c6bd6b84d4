"""The sink `nats`: rows as messages in NATS, taken by a stream of JetStream, or heard by subscribers.

A message that a stream has to take has the header `Nats-Msg-Id`, which is the same where its batch runs again: the
stream leaves a double out that comes within its window.

nats-py waits in an event loop: a connection has one of its own, which runs while it is used.
"""

import asyncio
import contextlib
import json
import re
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Self

from heliograph.actions.loops import VIA, nodes_in
from heliograph.outbound import SocketAddress
from heliograph.outbound.nats import NatsLogin, close_nats, flush_nats, is_loss, nats_text, open_nats
from heliograph.pipeline.errors import SinkError
from heliograph.pipeline.sinks.interface import INSTALL
from heliograph.pipeline.sinks.messages import MessageLink, MessageSink, OnTheirWay
from heliograph.pipeline.sinks.retry import TransientError
from heliograph.pipeline.sinks.rows import Derived
from heliograph.pipeline.sinks.servers import revealed
from heliograph.pipeline.sinks.template import placeholders
from heliograph.pipeline.tls import tls_context
from heliograph.settings.addresses import ServerAddress
from heliograph.settings.fields import optional, required, setting
from heliograph.settings.kinds import Boolean, Duration, RefusedError, SecretText, Text, Texts
from heliograph.settings.secrets import Secret
from heliograph.settings.units import Address

if TYPE_CHECKING:
    from nats.aio.client import Client
    from nats.aio.msg import Msg

_SUBJECT: Final = "subject"
_PAYLOAD: Final = "payload"
# Tokens with dots between; without what has a meaning for the protocol or for subscribers.
_VALID_SUBJECT: Final = re.compile(r"[^\s\0.*>]+(\.[^\s\0.*>]+)*")
_HEADER_NAME: Final = re.compile(r"[!-9;-~]+")
_OWN_HEADER: Final = "nats-"
_ON_THEIR_WAY_MAX: Final = 1000
_MESSAGE_ID: Final = "Nats-Msg-Id"
_NO_RESPONDERS: Final = "503"
# What JetStream says of a message that no other try changes.
_REFUSED_ERRORS: Final = frozenset({10054, 10097})  # larger than the stream takes; headers larger than that


@dataclass(frozen=True, kw_only=True)
class NatsSink(MessageSink):
    server: Address = required(ServerAddress(4222), "Where a server is.")
    token: Secret | None = optional(SecretText(), "A token in the place of user and password.")
    subject: str = required(Text("a template of a subject"), "Template of the subject.")
    payload: str | None = optional(Text("a template"), "Template of the payload; without, the row as JSON.")
    headers: Mapping[str, str] = setting(Texts(), {}, "Templates of headers, by name.", is_secret=True)
    jetstream: bool = setting(
        Boolean(), True, "Whether a stream has to take each message; without, it is for the subscribers of the moment."
    )
    connect_timeout_s: float = setting(
        Duration(0.001, needs_unit=True), 5.0, "How long a connection may take.", name="connect_timeout"
    )
    timeout_s: float = setting(
        Duration(0.001, needs_unit=True), 30.0, "How long acknowledgements may take.", name="timeout"
    )

    def __post_init__(self) -> None:
        if self.token is not None and self.username is not None:
            raise RefusedError("stands in the place of username and password", "token")
        for name in self.headers:
            if _HEADER_NAME.fullmatch(name) is None or name.lower().startswith(_OWN_HEADER):
                raise RefusedError(f"{name!r} is no name of a header: visible ASCII but :, not Nats-...", "headers")

    @property
    def target(self) -> str:
        return f"NATS subject {self.subject} at {self.server}"

    @property
    def derived(self) -> Sequence[Derived]:
        made = (
            Derived(f"header_{number}", text, f"headers.{name}", is_text=True)
            for number, (name, text) in enumerate(self.headers.items())
        )
        return (
            Derived(_SUBJECT, self.subject, _SUBJECT, is_text=True),
            Derived(_PAYLOAD, self.payload, _PAYLOAD),
            *made,
        )

    @property
    def is_addressed_by_row(self) -> bool:
        """Whether a row says where its message goes, so that the row is at fault where that is nowhere."""
        return bool(placeholders(self.subject))

    @property
    def token_text(self) -> str | None:
        return revealed(self.token)

    def message_of(self, chunk: dict[str, list[Any]], index: int) -> tuple[str, bytes, dict[str, str]]:
        subject = chunk[_SUBJECT][index]
        if _VALID_SUBJECT.fullmatch(subject) is None:
            raise ValueError(
                f"{subject[:100]!r} is no subject to publish to: tokens with dots between, without blanks, * and >"
            )
        headers = {name: chunk[f"header_{number}"][index] for number, name in enumerate(self.headers)}
        if VIA in headers:
            headers[VIA] = ",".join(nodes_in([headers[VIA]]))
        for name, value in headers.items():
            if "\r" in value or "\n" in value:
                raise ValueError(f"the header {name} has a line break")
        return subject, chunk[_PAYLOAD][index], headers

    def connected(self) -> AbstractContextManager[MessageLink]:
        return NatsLink(self)


class NatsLink:
    """One connection. Owned by the thread that enters it."""

    def __init__(self, sink: NatsSink) -> None:
        try:
            import nats.errors
        except ImportError as error:
            raise SinkError(f"NATS needs nats-py: {INSTALL}") from error
        self._sink = sink
        self._errors = nats.errors
        self._runner = asyncio.Runner()
        self._client: Client | None = None
        self._told: list[str] = []
        # nats-py's own asynchronous publishing leaves a message without an answer where a stream refuses it.
        self._inbox = ""
        self._count = 0
        self._unanswered: dict[str, int] = {}
        self._answers: dict[int, dict[str, Any] | None] = {}
        self._all_answered = asyncio.Event()
        self._lost = asyncio.Event()

    def __enter__(self) -> Self:
        try:
            self._runner.run(self._open())
        except BaseException:
            self._runner.close()
            raise
        return self

    def __exit__(self, *_error: object) -> None:
        try:
            if self._client is not None:
                self._runner.run(close_nats(self._client))
        finally:
            self._runner.close()

    def __repr__(self) -> str:
        return f"NatsLink({self._sink.server})"

    def send(self, outgoing: OnTheirWay) -> None:
        numbers = list(outgoing.waiting)
        for begin in range(0, len(numbers), _ON_THEIR_WAY_MAX):
            window = numbers[begin : begin + _ON_THEIR_WAY_MAX]
            try:
                self._runner.run(self._publish(window, outgoing))
            except (OSError, TimeoutError, self._errors.Error) as error:
                raise TransientError(f"{self._sink.target}: {nats_text(error)}") from error

    async def _publish(self, numbers: list[int], outgoing: OnTheirWay) -> None:
        assert self._client is not None
        self._told.clear()
        publish = self._publish_to_streams if self._sink.jetstream else self._publish_to_subscribers
        publishing = asyncio.ensure_future(publish(self._client, numbers, outgoing))
        losing = asyncio.ensure_future(self._lost.wait())  # of which nats-py tells no one that waits
        try:
            await asyncio.wait((publishing, losing), return_when=asyncio.FIRST_COMPLETED)
            if not publishing.done():
                raise ConnectionError("; ".join(["the connection was lost", *self._told]))
            publishing.result()
        finally:
            publishing.cancel()
            losing.cancel()

    async def _publish_to_streams(self, client: "Client", numbers: list[int], outgoing: OnTheirWay) -> None:
        self._unanswered.clear()
        self._answers.clear()
        for number in numbers:
            message = outgoing.waiting[number]
            headers = {**message.headers, _MESSAGE_ID: message.identity}
            self._count += 1
            reply = f"{self._inbox}.{self._count}"
            try:
                await client.publish(message.place, message.body, reply=reply, headers=headers)
            except self._errors.MaxPayloadError:
                outgoing.refuse(number, self._too_large(client))
            else:
                self._unanswered[reply] = number
        if self._unanswered:
            self._all_answered.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._sink.timeout_s):
                    await flush_nats(client, self._sink.timeout_s)
                    self._judge_permissions(numbers, outgoing)  # such messages get no answer
                    self._unanswered = {
                        reply: number for reply, number in self._unanswered.items() if number in outgoing.waiting
                    }
                    if self._unanswered:
                        await self._all_answered.wait()
        if self._unanswered:
            outgoing.problem = f"no answer in {self._sink.timeout_s:g} s"
        without_stream = await self._without_stream(client, outgoing)
        for number, answer in self._answers.items():
            self._judge(number, answer, without_stream, outgoing)

    async def _on_answer(self, message: "Msg") -> None:
        number = self._unanswered.pop(message.subject, None)
        if number is None:
            return
        if (message.headers or {}).get("Status") == _NO_RESPONDERS:
            self._answers[number] = None
        else:
            self._answers[number] = json.loads(message.data)
        if not self._unanswered:
            self._all_answered.set()

    async def _publish_to_subscribers(self, client: "Client", numbers: list[int], outgoing: OnTheirWay) -> None:
        for number in numbers:
            message = outgoing.waiting[number]
            try:
                await client.publish(message.place, message.body, headers=dict(message.headers) or None)
            except self._errors.MaxPayloadError:
                outgoing.refuse(number, self._too_large(client))
        await flush_nats(client, self._sink.timeout_s)
        self._judge_permissions(numbers, outgoing)
        for number in numbers:
            outgoing.take(number)

    async def _without_stream(self, client: "Client", outgoing: OnTheirWay) -> set[str]:
        """The subjects that no stream takes; not one whose stream is away for a moment."""
        from nats.js.errors import NotFoundError

        found = set()
        for subject in {outgoing.waiting[number].place for number, answer in self._answers.items() if answer is None}:
            try:
                await client.jetstream().find_stream_name_by_subject(subject)
            except NotFoundError:
                found.add(subject)
        return found

    def _judge(
        self, number: int, answer: dict[str, Any] | None, without_stream: set[str], outgoing: OnTheirWay
    ) -> None:
        """Take what a stream answered for a message; None where none did."""
        if answer is None and outgoing.waiting[number].place in without_stream:
            self._refuse(number, "no stream takes this subject", outgoing)
        elif answer is None:
            outgoing.problem = "the stream of this subject is away"
        elif (error := answer.get("error")) is None:
            outgoing.take(number)
        elif error.get("err_code") in _REFUSED_ERRORS:
            outgoing.refuse(number, str(error.get("description")))
        else:
            outgoing.problem = str(error.get("description"))

    def _judge_permissions(self, numbers: list[int], outgoing: OnTheirWay) -> None:
        for text in self._told:
            if "permissions violation" not in text.lower():
                continue
            for number in numbers:
                message = outgoing.waiting.get(number)
                if message is not None and f'"{message.place}"'.lower() in text.lower():
                    self._refuse(number, text, outgoing)

    def _refuse(self, number: int, reason: str, outgoing: OnTheirWay) -> None:
        """Refuse a message whose row has said where it goes; of others the settings are at fault, or the server's."""
        if not self._sink.is_addressed_by_row:
            raise SinkError(f"{self._sink.target}: {reason}")
        outgoing.refuse(number, reason)

    # --- the connection

    async def _open(self) -> None:
        sink = self._sink
        tls = tls_context(sink.tls, SinkError) if sink.tls is not None else None
        login = NatsLogin(sink.username, sink.password_text, sink.token_text, tls)
        problem: TransientError | None = None
        for address in await asyncio.to_thread(sink.addresses_of, sink.server):
            try:
                self._client = await self._connect(address, login)
            except TransientError as error:
                problem = error
            else:
                return
        assert problem is not None  # there is one address at least
        raise problem

    async def _listen(self, client: "Client") -> None:
        if self._sink.jetstream:
            self._inbox = client.new_inbox()
            await client.subscribe(f"{self._inbox}.*", cb=self._on_answer)

    async def _connect(self, address: SocketAddress, login: NatsLogin) -> "Client":
        sink = self._sink
        try:
            client = await open_nats(
                address,
                sink.server.host,
                login,
                sink.connect_timeout_s,
                sink.declared_at,
                self._on_error,
                self._on_lost,
            )
        except (OSError, self._errors.Error) as error:
            raise self._connect_error(error) from error
        self._lost.clear()
        try:
            async with asyncio.timeout(sink.connect_timeout_s):
                await self._listen(client)
        except (OSError, self._errors.Error) as error:
            await close_nats(client)
            raise self._connect_error(error) from error
        return client

    def _connect_error(self, error: Exception) -> Exception:
        texts = [*self._told, nats_text(error)]
        text = f"{self._sink.target}: {'; '.join(dict.fromkeys(filter(None, texts)))}"
        refusals = ("authorization violation", "authentication", "certificate verify failed")
        if any(word in text.lower() for word in refusals):
            return SinkError(text)
        return TransientError(text)

    async def _on_error(self, error: Exception) -> None:
        self._told.append(nats_text(error))
        if is_loss(error):
            self._lost.set()

    async def _on_lost(self) -> None:
        self._lost.set()

    def _too_large(self, client: "Client") -> str:
        return f"larger than the server takes, which is {client.max_payload} bytes"
