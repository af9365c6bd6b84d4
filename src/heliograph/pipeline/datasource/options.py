"""The options of the data source and sink ``heliograph``: their names, defaults and checks.

Spark hands options over as text, whatever they were. Each class here takes that text apart once, on the driver, and is
a plain value from then on: it is pickled to the workers with the reader or writer that holds it.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from heliograph.client_tls import ClientTls
from heliograph.pipeline.datasource.client import (
    DEFAULT_DATABASE,
    DEFAULT_ENDPOINT,
    FAIL,
    SKIP,
    MessageSelection,
    StorageClient,
)
from heliograph.pipeline.datasource.decoding import RAW, PayloadFormat
from heliograph.pipeline.datasource.option_names import check_sink_names, check_source_names
from heliograph.pipeline.datasource.read_bounds import EARLIEST as EARLIEST
from heliograph.pipeline.datasource.read_bounds import LATEST as LATEST
from heliograph.pipeline.datasource.read_bounds import ReadBound, check_span, parse_bound, parse_zone
from heliograph.pipeline.errors import OptionError

#: Rows of one partition of a read. About a second's work for one core with a JSON field to extract.
DEFAULT_PARTITION_MESSAGES: Final = 262_144

#: Bytes of topics and payloads of one partition of a read: what a worker and Spark's Java process hold at a time is a
#: small part of it, so it bounds only how uneven the work of the cores may become.
DEFAULT_PARTITION_BYTES: Final = 64 << 20

_SCHEMES: Final = ("grpc+tls", "grpc+tcp")


@dataclass(frozen=True)
class SourceOptions:
    """What to read: the options of ``spark.read.format("heliograph")`` and ``spark.readStream...``.

    Attributes:
        endpoints: ``endpoint``: host and port of the storage readers, one of each node.
        token: ``token``, or what the file ``tokenFile`` holds: what the readers ask for.
        tls_ca: ``tlsCa``: PEM file with the authorities of the readers' certificates.
        tls_cert: ``tlsCert``: PEM file with a certificate to show.
        tls_key: ``tlsKey``: PEM file with its key.
        database: ``database``: name of the database.
        topics: ``topics``: topic filters, separated by commas, or as a JSON array.
        start: ``start``: ``earliest``, ``latest``, microseconds since the epoch of commit, or an offset.
        end: ``end``: the same; the messages before it (of an offset: up to it) are read.
        columns: ``columns``: names of the columns to read; None is all.
        trigger_messages_max: ``maxMessagesPerTrigger``: rows of one micro-batch at most.
        trigger_bytes_max: ``maxBytesPerTrigger``: bytes of one micro-batch at most.
        partition_messages: ``partitionMessages``: rows of one partition, about.
        partition_bytes: ``partitionBytes``: bytes of one partition, about.
        payload_format: ``schema`` and ``jsonSchema``, ``schemas``, ``mode``: what payloads are decoded to.
        on_damage: ``onDamage``: ``fail`` the read, or ``skip`` what is damaged on disk.
        push_filters: ``pushFilters``: whether the conditions of a query narrow the read.
        fail_on_data_loss: ``failOnDataLoss``: whether a stream fails when retention removed what it has not read yet.
    """

    endpoints: tuple[str, ...] = (DEFAULT_ENDPOINT,)
    token: str | None = field(default=None, repr=False)
    tls_ca: str | None = None
    tls_cert: str | None = None
    tls_key: str | None = None
    database: str = DEFAULT_DATABASE
    topics: tuple[str, ...] = ("#",)
    start: ReadBound = EARLIEST
    end: ReadBound = LATEST
    columns: tuple[str, ...] | None = None
    trigger_messages_max: int | None = None
    trigger_bytes_max: int | None = None
    partition_messages: int = DEFAULT_PARTITION_MESSAGES
    partition_bytes: int = DEFAULT_PARTITION_BYTES
    payload_format: PayloadFormat = RAW
    on_damage: str = FAIL
    fail_on_data_loss: bool = True
    push_filters: bool = False

    @staticmethod
    def of(options: Mapping[str, str]) -> "SourceOptions":
        """Take the options of a read apart.

        Raises:
            OptionError: One is not known, or has a value that is not valid.
        """
        check_source_names(options)
        on_damage = options.get("onDamage", FAIL)
        if on_damage not in (FAIL, SKIP):
            raise OptionError("onDamage", on_damage, f"{FAIL} or {SKIP}")
        zone = parse_zone(options.get("timeZone"))
        start = parse_bound("start", options.get("start", EARLIEST), zone)
        end = parse_bound("end", options.get("end", LATEST), zone)
        check_span(start, end)
        return SourceOptions(
            endpoints=_endpoints(options),
            token=_token(options),
            tls_ca=options.get("tlsCa"),
            tls_cert=options.get("tlsCert"),
            tls_key=options.get("tlsKey"),
            database=options.get("database", DEFAULT_DATABASE),
            topics=_list("topics", options.get("topics", "#")),
            start=start,
            end=end,
            columns=_list("columns", options["columns"]) if "columns" in options else None,
            trigger_messages_max=_count("maxMessagesPerTrigger", options),
            trigger_bytes_max=_count("maxBytesPerTrigger", options),
            partition_messages=_count("partitionMessages", options) or DEFAULT_PARTITION_MESSAGES,
            partition_bytes=_count("partitionBytes", options) or DEFAULT_PARTITION_BYTES,
            payload_format=PayloadFormat.of(options),
            on_damage=on_damage,
            fail_on_data_loss=_flag("failOnDataLoss", options, default=True),
            push_filters=_flag("pushFilters", options, default=False),
        )

    def selection(self, start: int | None = None, end: int | None = None) -> MessageSelection:
        """The selection of these topics in a span of commit time."""
        return MessageSelection(self.database, self.topics, start, end, self.on_damage)

    def connect(self, endpoint: str) -> StorageClient:
        """A connection to one of the readers; the caller closes it."""
        return StorageClient(
            endpoint, token=self.token, tls_ca=self.tls_ca, tls_cert=self.tls_cert, tls_key=self.tls_key
        )


@dataclass(frozen=True)
class SinkOptions:
    """Where and how to publish: the options of ``df.write.format("heliograph")`` and ``df.writeStream...``.

    Attributes:
        host: ``host``: the broker's host.
        port: ``port``: the broker's port.
        clientid: ``clientid``: beginning of the client ids; each task adds its own ending.
        qos: ``qos``: quality of service of rows without a column ``qos``.
        username: ``username``, if the broker asks for one.
        password: ``password``, likewise.
        window: ``window``: messages that may wait for their acknowledgement at a time.
        ack_timeout_s: ``ackTimeout``: seconds without any acknowledgement after which the task fails.
        connect_timeout_s: ``connectTimeout``: seconds to wait for the broker to accept the connection.
        connect_attempts: ``connectAttempts``: how often a task tries to reach the broker.
        tls: ``tls``, ``tlsVerify``, ``tlsCa``, ``tlsCert``, ``tlsKey``: how the connection is encrypted; None for not.
    """

    host: str = "127.0.0.1"
    port: int = 1883
    clientid: str = "heliograph-pipeline"
    qos: int = 1
    username: str | None = None
    password: str | None = None
    window: int = 256
    ack_timeout_s: float = 30.0
    connect_timeout_s: float = 30.0
    connect_attempts: int = 3
    tls: ClientTls | None = None

    @staticmethod
    def of(options: Mapping[str, str]) -> "SinkOptions":
        """Take the options of a write apart.

        Raises:
            OptionError: One is not known, or has a value that is not valid.
        """
        check_sink_names(options)
        qos = options.get("qos", "1")
        if qos not in ("0", "1", "2"):
            raise OptionError("qos", qos, "0, 1 or 2")
        is_checked = _flag("tlsVerify", options, default=True)
        tls = ClientTls(options.get("tlsCa"), options.get("tlsCert"), options.get("tlsKey"), is_checked)
        return SinkOptions(
            host=options.get("host", SinkOptions.host),
            port=_count("port", options) or SinkOptions.port,
            clientid=options.get("clientid", SinkOptions.clientid),
            qos=int(qos),
            username=options.get("username"),
            password=options.get("password"),
            window=_count("window", options) or SinkOptions.window,
            ack_timeout_s=float(_count("ackTimeout", options) or SinkOptions.ack_timeout_s),
            connect_timeout_s=float(_count("connectTimeout", options) or SinkOptions.connect_timeout_s),
            connect_attempts=_count("connectAttempts", options) or SinkOptions.connect_attempts,
            tls=tls if _flag("tls", options, default="tlsCa" in options) else None,
        )

    def __repr__(self) -> str:
        return f"SinkOptions({self.host}:{self.port}, clientid={self.clientid!r}, qos={self.qos})"


def parse_endpoint(option: str, text: str, example: str = DEFAULT_ENDPOINT) -> tuple[str, int]:
    """Take ``host:port`` (or ``[v6 address]:port``) apart.

    Raises:
        OptionError: It is not of that form.
    """
    host, _, port = text.rpartition(":")
    if not host or not port.isascii() or not port.isdigit() or not 0 < int(port) < 65536:
        raise OptionError(option, text, f"host:port, such as {example}")
    return host.removeprefix("[").removesuffix("]"), int(port)


def _endpoints(options: Mapping[str, str]) -> tuple[str, ...]:
    endpoints = _list("endpoint", options.get("endpoint", DEFAULT_ENDPOINT))
    for endpoint in endpoints:
        scheme, has_scheme, address = endpoint.rpartition("://")
        if has_scheme and scheme not in _SCHEMES:
            raise OptionError("endpoint", endpoint, f"host:port, with {' or '.join(_SCHEMES)}:// before it or nothing")
        parse_endpoint("endpoint", address)
    if len(set(endpoints)) < len(endpoints):
        raise OptionError("endpoint", options["endpoint"], "readers of different nodes, each named once")
    return endpoints


def _token(options: Mapping[str, str]) -> str | None:
    if "tokenFile" not in options:
        return options.get("token")
    file = Path(options["tokenFile"])
    try:
        token = file.read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise OptionError("tokenFile", str(file), f"a file that can be read ({error})") from None
    if not token:
        raise OptionError("tokenFile", str(file), "a file with a token in it; it is empty")
    return token


def _list(option: str, text: str) -> tuple[str, ...]:
    valid = "names separated by commas, or a JSON array of names"
    if text.lstrip().startswith("["):
        try:
            names = json.loads(text)
        except json.JSONDecodeError:
            raise OptionError(option, text, valid) from None
    else:
        names = [name.strip() for name in text.split(",")]
    if not names or not all(isinstance(name, str) and name for name in names):
        raise OptionError(option, text, valid)
    return tuple(names)


def _count(option: str, options: Mapping[str, str]) -> int | None:
    text = options.get(option)
    if text is None:
        return None
    if not (text.isascii() and text.isdigit() and int(text) > 0):
        raise OptionError(option, text, "a whole number greater than 0")
    return int(text)


def _flag(option: str, options: Mapping[str, str], *, default: bool) -> bool:
    text = options.get(option, str(default)).lower()
    if text not in ("true", "false"):
        raise OptionError(option, text, "true or false")
    return text == "true"
