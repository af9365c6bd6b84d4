"""The options of the data source ``heliograph``: what each may say, and what it is without.

Spark hands options over as text, whatever they were. It is taken apart once, on the driver, and is
a plain value from then on: it is pickled to the workers with the reader that holds it.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

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
from heliograph.pipeline.datasource.option_texts import COUNT, Flag, TlsFiles, parse_endpoint, read_options
from heliograph.pipeline.datasource.read_bounds import EARLIEST as EARLIEST
from heliograph.pipeline.datasource.read_bounds import LATEST as LATEST
from heliograph.pipeline.datasource.read_bounds import ReadBound, check_span, parse_bound, parse_zone
from heliograph.pipeline.errors import OptionError
from heliograph.settings.fields import optional, setting, settings_of
from heliograph.settings.kinds import AnyText, Choice, Kind, RefusedError, Text
from heliograph.settings.secrets import Secret, SecretError

#: Rows of one partition of a read. About a second's work for one core with a JSON field to extract.
DEFAULT_PARTITION_MESSAGES: Final = 262_144

#: Bytes of topics and payloads of one partition of a read: what a worker and Spark's Java process hold at a time is a
#: small part of it, so it bounds only how uneven the work of the cores may become.
DEFAULT_PARTITION_BYTES: Final = 64 << 20
_SCHEMES: Final = ("grpc+tls", "grpc+tcp")

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
                parse_endpoint("endpoint", address, DEFAULT_ENDPOINT)
            except OptionError:
                raise RefusedError from None
        if len(set(endpoints)) < len(endpoints):
            raise RefusedError("name each once, since they are of different nodes")
        return endpoints


class Bound(Kind[ReadBound]):
    """Where a read begins or ends; `parse_bound` says what the text means."""

    is_word = True

    expected = "earliest, latest, a time as 2026-01-31T00:00:00Z, microseconds since the epoch, or a saved offset"

    def convert(self, value: Content) -> ReadBound:
        """The text as it is."""
        return str(value)


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
        COUNT, "Messages of a micro-batch at most (streams only).", name="maxMessagesPerTrigger"
    )
    trigger_bytes_max: int | None = optional(
        COUNT, "Bytes of a micro-batch at most (streams only).", name="maxBytesPerTrigger"
    )
    partition_messages: int = setting(
        COUNT, DEFAULT_PARTITION_MESSAGES, "Messages of one partition, about.", name="partitionMessages"
    )
    partition_bytes: int = setting(
        COUNT, DEFAULT_PARTITION_BYTES, "Bytes of topics and payloads of one partition, about.", name="partitionBytes"
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


def _token(options: Mapping[str, str]) -> str | None:
    if "token" not in options:
        return None
    secret = Secret.of(options["token"])
    try:
        return secret.reveal()
    except SecretError as error:
        raise OptionError("token", f"file://{secret.file}", f"a token, or a file with one in it ({error})") from None
