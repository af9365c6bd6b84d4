"""The options of the data source and sink ``heliograph``: what each may say, and what it is without.

Spark hands options over as text, whatever they were. Each class here takes that text apart once, on the driver, and is
a plain value from then on: it is pickled to the workers with the reader or writer that holds it.

An unknown option would be passed over, and what is read or published would not be what was meant. So it is refused,
with the name that it is close to, or the one that has its meaning here where it is an option of Spark's Kafka source.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import Any, Final

from heliograph.hocon.values import Content
from heliograph.pipeline.datasource.client import (
    DEFAULT_DATABASE,
    DEFAULT_ENDPOINT,
    FAIL,
    SKIP,
    MessageSelection,
    StorageClient,
)
from heliograph.pipeline.datasource.decoding import RAW, PayloadFormat
from heliograph.pipeline.datasource.read_bounds import EARLIEST as EARLIEST
from heliograph.pipeline.datasource.read_bounds import LATEST as LATEST
from heliograph.pipeline.datasource.read_bounds import ReadBound, check_span, parse_bound, parse_zone
from heliograph.pipeline.errors import OptionError
from heliograph.settings.fields import optional, setting, settings_of
from heliograph.settings.kinds import AnyText, Boolean, Choice, Integer, Kind, RefusedError, Text
from heliograph.settings.secrets import Secret, SecretError
from heliograph.settings.tls import ClientTls

#: Rows of one partition of a read. About a second's work for one core with a JSON field to extract.
DEFAULT_PARTITION_MESSAGES: Final = 262_144

#: Bytes of topics and payloads of one partition of a read: what a worker and Spark's Java process hold at a time is a
#: small part of it, so it bounds only how uneven the work of the cores may become.
DEFAULT_PARTITION_BYTES: Final = 64 << 20
_SCHEMES: Final = ("grpc+tls", "grpc+tcp")

#: Options of a streaming write that are Spark's own, and handed on to the sink.
_OF_SPARK: Final = ("checkpointlocation",)
_NO_GROUPS: Final = "left out: there are no consumer groups, a stream keeps its place in its checkpoint"
_NO_PATH: Final = "left out: topics are named by the option topics"

#: What is meant by names that are no options of a read.
SOURCE_HINTS: Final[Mapping[str, str]] = {
    "path": _NO_PATH,
    "kafka.bootstrap.servers": "endpoint here: host:port of the storage reader",
    "subscribe": "topics here, which takes MQTT topic filters separated by commas",
    "subscribepattern": "topics here, which takes MQTT topic filters such as sensors/+/temp",
    "assign": "topics here; which shards are read, a condition on the column shard says",
    "startingoffsets": "start here: earliest, latest, a time or an offset",
    "startingtimestamp": "start here: earliest, latest, a time or an offset",
    "startingoffsetsbytimestamp": "start here: earliest, latest, a time or an offset",
    "endingoffsets": "end here: latest, a time or an offset",
    "endingtimestamp": "end here: latest, a time or an offset",
    "endingoffsetsbytimestamp": "end here: latest, a time or an offset",
    "maxoffsetspertrigger": "maxMessagesPerTrigger here",
    "minpartitions": "partitionMessages here, the messages of one partition",
    "maxrecordsperpartition": "partitionMessages here",
    "groupidprefix": _NO_GROUPS,
    "kafka.group.id": _NO_GROUPS,
    "includeheaders": "left out: the column properties is always there",
    "ondecodeerror": "mode here: PERMISSIVE, DROPMALFORMED or FAILFAST",
}

#: What is meant by names that are no options of a write.
SINK_HINTS: Final[Mapping[str, str]] = {
    "path": "left out: each row names its topic in the column topic",
    "kafka.bootstrap.servers": "host and port here: those of the MQTT broker",
    "topic": "left out: each row names its topic in the column topic (lit('a/b').alias('topic') for one topic)",
    "includeheaders": "left out: give the rows a column properties",
    "endpoint": "host and port here: rows are published over MQTT",
    "retain": "left out: give the rows a column retain",
}
_KAFKA: Final = "kafka."


class Names(Kind[tuple[str, ...]]):
    """Names in one text."""

    expected = "names separated by commas, or a JSON array of names"
    is_word = True

    def convert(self, value: Content) -> tuple[str, ...]:
        """The names."""
        names: object = [name.strip() for name in value.split(",")] if isinstance(value, str) else None
        if isinstance(value, str) and value.lstrip().startswith("["):
            try:
                names = json.loads(value)
            except json.JSONDecodeError:
                raise RefusedError from None
        if not isinstance(names, list) or not names or not all(isinstance(name, str) and name for name in names):
            raise RefusedError
        return tuple(names)

    def plain(self, value: tuple[str, ...]) -> str:
        """With commas between."""
        return ",".join(value)


class EndpointNames(Names):
    """Storage readers."""

    expected = f"host:port, with {' or '.join(_SCHEMES)}:// before it or nothing, of each reader, separated by commas"

    def convert(self, value: Content) -> tuple[str, ...]:
        """The text of each, which is the place of a reader."""
        endpoints = super().convert(value)
        for endpoint in endpoints:
            scheme, has_scheme, address = endpoint.rpartition("://")
            if has_scheme and scheme not in _SCHEMES:
                raise RefusedError
            try:
                parse_endpoint("endpoint", address)
            except OptionError:
                raise RefusedError from None
        if len(set(endpoints)) < len(endpoints):
            raise RefusedError("name each once, since they are of different nodes")
        return endpoints


class Flag(Boolean):
    """`true` or `false` in letters of any case, as Spark has them."""

    def convert(self, value: Content) -> bool:
        """Also the words of Python."""
        return super().convert(value.lower() if isinstance(value, str) else value)


class Bound(Kind[ReadBound]):
    """Where a read begins or ends; `parse_bound` says what the text means."""

    is_word = True

    expected = "earliest, latest, a time as 2026-01-31T00:00:00Z, microseconds since the epoch, or a saved offset"

    def convert(self, value: Content) -> ReadBound:
        """The text as it is."""
        return str(value)


_COUNT: Final = Integer(1)


@dataclass(frozen=True, kw_only=True)
class TlsFiles:
    """The files of TLS, which are read where the connection is made: on driver and workers."""

    tls_ca: str | None = optional(AnyText("a file"), "PEM file with the authorities to trust.", name="tlsCa")
    tls_cert: str | None = optional(AnyText("a file"), "PEM file with a certificate to show.", name="tlsCert")
    tls_key: str | None = optional(AnyText("a file"), "PEM file with its key.", name="tlsKey")


@dataclass(frozen=True)
class SourceOptions(TlsFiles):
    """What to read: the options of ``spark.read.format("heliograph")`` and ``spark.readStream...``."""

    endpoints: tuple[str, ...] = setting(
        EndpointNames(),
        (DEFAULT_ENDPOINT,),
        "Host and port of the storage reader; of several nodes, one of each. `grpc+tls://` before it asks for TLS.",
        name="endpoint",
    )
    token: str | None = optional(
        AnyText("a token, or a file on the driver that holds it as in file:///run/secrets/token"),
        "What the reader asks for; without, that of a node of the same user on the same machine.",
        is_secret=True,
    )
    database: str = setting(Text("the name of a database"), DEFAULT_DATABASE, "Name of the database.")
    topics: tuple[str, ...] = setting(Names(), ("#",), "Topic filters.")
    start: ReadBound = setting(
        Bound(), EARLIEST, "Where the read begins; `latest` is for streams, and a time is that of the commit."
    )
    end: ReadBound = setting(
        Bound(), LATEST, "Where it ends, of a batch only: messages before a time are read, and those up to an offset."
    )
    time_zone: str | None = optional(
        AnyText("a time zone"), "Time zone of times that name none; without, that of the session.", name="timeZone"
    )
    columns: tuple[str, ...] | None = optional(Names(), "Names of the columns to read; without, all.")
    trigger_messages_max: int | None = optional(
        _COUNT, "Messages of a micro-batch at most (streams only).", name="maxMessagesPerTrigger"
    )
    trigger_bytes_max: int | None = optional(
        _COUNT, "Bytes of a micro-batch at most (streams only).", name="maxBytesPerTrigger"
    )
    partition_messages: int = setting(
        _COUNT, DEFAULT_PARTITION_MESSAGES, "Messages of one partition, about.", name="partitionMessages"
    )
    partition_bytes: int = setting(
        _COUNT, DEFAULT_PARTITION_BYTES, "Bytes of topics and payloads of one partition, about.", name="partitionBytes"
    )
    fail_on_data_loss: bool = setting(
        Flag(),
        True,
        "Whether a stream fails when the broker's retention removed messages before they were read; `false` goes on "
        "without them and counts them.",
        name="failOnDataLoss",
    )
    push_filters: bool = setting(
        Flag(),
        False,
        "Whether conditions of the query narrow a batch read; such a DataFrame is for one query "
        "([below](#the-data-source)).",
        name="pushFilters",
    )
    on_damage: str = setting(
        Choice(FAIL, SKIP),
        FAIL,
        "What is done where stored messages are damaged on disk: the read fails, or they are skipped with a warning in "
        "the worker's log.",
        name="onDamage",
    )
    schema: str = setting(
        AnyText("raw, json, variant, avro:NAME, protobuf:NAME or protobuf:NAME:MESSAGE"),
        "raw",
        "What payloads are decoded to, see [below](#decoded-payloads).",
    )
    json_schema: str | None = optional(
        AnyText('fields as in "temp DOUBLE, station STRING"'), "With `schema` json: the fields.", name="jsonSchema"
    )
    schemas: str | None = optional(
        AnyText("a file with a section `schemas`, or its text in braces"), "Where the schema NAME is."
    )
    mode: str = setting(
        AnyText("PERMISSIVE, DROPMALFORMED or FAILFAST"),
        "PERMISSIVE",
        "What becomes of a payload that cannot be decoded: `value` is null and `decode_error` says why, the row is "
        "left out, or the read fails.",
    )
    payload_format: PayloadFormat = RAW

    @staticmethod
    def of(options: Mapping[str, str]) -> "SourceOptions":
        """Take the options of a read apart."""
        values = read_options(SourceOptions, options, SOURCE_HINTS)
        zone = parse_zone(options.get("timeZone"))
        start = parse_bound("start", options.get("start", EARLIEST), zone)
        end = parse_bound("end", options.get("end", LATEST), zone)
        check_span(start, end)
        read = {"start": start, "end": end, "token": _token(options), "payload_format": PayloadFormat.of(options)}
        return SourceOptions(**(values | read))

    @staticmethod
    def named(options: Mapping[str, str]) -> dict[str, str]:
        """Options whose names may be in any case, as Spark takes them, by the names that the source knows."""
        known = {name.lower(): name for name in settings_of(SourceOptions)}
        return {known.get(name.lower(), name): text for name, text in options.items()}

    def selection(self, start: int | None = None, end: int | None = None) -> MessageSelection:
        """The selection of these topics in a span of commit time."""
        return MessageSelection(self.database, self.topics, start, end, self.on_damage)

    def connect(self, endpoint: str) -> StorageClient:
        """A connection to one of the readers; the caller closes it."""
        return StorageClient(
            endpoint, token=self.token, tls_ca=self.tls_ca, tls_cert=self.tls_cert, tls_key=self.tls_key
        )


@dataclass(frozen=True)
class SinkOptions(TlsFiles):
    """Where and how to publish: the options of ``df.write.format("heliograph")`` and ``df.writeStream...``."""

    host: str = setting(Text("a host"), "127.0.0.1", "Host of the MQTT broker.")
    port: int = setting(Integer(1, 65_535), 1883, "Port of the MQTT broker.")
    clientid: str = setting(
        Text("a text"), "heliograph-pipeline", "Beginning of the client ids; each task adds its own ending."
    )
    username: str | None = optional(AnyText("a user name"), "Who connects, if the broker asks for it.")
    password: str | None = optional(AnyText("a password"), "Likewise.", is_secret=True)
    qos: int = setting(Integer(0, 2), 1, "Quality of service of rows without a column `qos`.")
    window: int = setting(_COUNT, 256, "Messages that may wait for their acknowledgement.")
    ack_timeout_s: float = setting(
        _COUNT, 30, "Seconds without any acknowledgement after which a task fails.", name="ackTimeout"
    )
    connect_timeout_s: float = setting(
        _COUNT, 30, "Seconds to wait for the broker to accept the connection.", name="connectTimeout"
    )
    connect_attempts: int = setting(_COUNT, 3, "How often a task tries to reach the broker.", name="connectAttempts")
    is_encrypted: bool | None = optional(Flag(), "Whether TLS is spoken; without, where `tlsCa` is given.", name="tls")
    verify: bool = setting(Flag(), True, "Whether the broker's certificate and name are checked.", name="tlsVerify")
    tls: ClientTls | None = None

    @staticmethod
    def of(options: Mapping[str, str]) -> "SinkOptions":
        """Take the options of a write apart."""
        read = SinkOptions(**read_options(SinkOptions, options, SINK_HINTS))
        is_encrypted = read.tls_ca is not None if read.is_encrypted is None else read.is_encrypted
        tls = ClientTls(read.tls_ca or "", read.tls_cert or "", read.tls_key or "", read.verify)
        return replace(read, tls=tls) if is_encrypted else read

    def __repr__(self) -> str:
        return f"SinkOptions({self.host}:{self.port}, clientid={self.clientid!r}, qos={self.qos})"


def parse_endpoint(option: str, text: str, example: str = DEFAULT_ENDPOINT) -> tuple[str, int]:
    """Take ``host:port`` (or ``[v6 address]:port``) apart."""
    host, _, port = text.rpartition(":")
    if not host or not port.isascii() or not port.isdigit() or not 0 < int(port) < 65536:
        raise OptionError(option, text, f"host:port, such as {example}")
    return host.removeprefix("[").removesuffix("]"), int(port)


def _token(options: Mapping[str, str]) -> str | None:
    if "token" not in options:
        return None
    secret = Secret.of(options["token"])
    try:
        return secret.reveal()
    except SecretError as error:
        raise OptionError("token", f"file://{secret.file}", f"a token, or a file with one in it ({error})") from None


def read_options(model: type[Any], options: Mapping[str, str], hints: Mapping[str, str]) -> dict[str, Any]:
    """What options say, by the fields of a group of settings; hints are for names that are no options here."""
    settings = settings_of(model)
    _check(options, tuple(settings), hints)
    values: dict[str, Any] = {}
    for name, declared in settings.items():  # Spark's mapping knows them in any case, and gives them in small letters
        if name not in options:
            continue
        text, kind = options[name], declared.kind
        assert isinstance(kind, Kind)
        try:
            values[declared.field] = kind.convert(text)
        except RefusedError as refusal:
            detail = f": {refusal}" if str(refusal) else ""
            raise OptionError(name, text, f"{kind.expected}{detail}") from None
    return values


def _check(options: Mapping[str, str], valid: Sequence[str], hints: Mapping[str, str]) -> None:
    known = {name.lower(): name for name in valid}
    for name, value in options.items():
        folded = name.lower()
        if folded not in known and folded not in _OF_SPARK:
            raise OptionError(name, value, hints.get(folded) or _nearest(folded, known))


def _nearest(name: str, known: Mapping[str, str]) -> str:
    near = get_close_matches(name, known, n=1)
    if near:
        return f"left out, or did you mean {known[near[0]]}?"
    text = "left out, since this is no Kafka" if name.startswith(_KAFKA) else "left out"
    return f"{text}; there are {', '.join(known.values())}"
