"""The options of the sink ``heliograph``: where and how rows are published.

Each is taken apart once, on the driver, and is a plain value from then on: it is pickled to the workers.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from heliograph.pipeline.datasource.option_texts import COUNT, Flag, TlsFiles, read_options
from heliograph.settings.fields import optional, setting
from heliograph.settings.kinds import AnyText, Integer, Text
from heliograph.settings.outbound import OutboundConfig
from heliograph.settings.tls import ClientTls

#: What is meant by names that are no options of a write.
SINK_HINTS: Final[Mapping[str, str]] = {
    "path": "left out: each row names its topic in the column topic",
    "kafka.bootstrap.servers": "host and port here: those of the MQTT broker",
    "topic": "left out: each row names its topic in the column topic (lit('a/b').alias('topic') for one topic)",
    "includeheaders": "left out: give the rows a column properties",
    "endpoint": "host and port here: rows are published over MQTT",
    "retain": "left out: give the rows a column retain",
}

#: The versions of MQTT that a publisher speaks, in EMQX's words.
V3: Final = "v3"
V4: Final = "v4"
V5: Final = "v5"

#: Every server may be connected to: a program that writes by the data source opens connections of its own anyway.
UNBOUNDED: Final = OutboundConfig(allow_link_local=True)


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
    window: int = setting(COUNT, 256, "Messages that may wait for their acknowledgement.")
    ack_timeout_s: float = setting(
        COUNT, 30, "Seconds without any acknowledgement after which a task fails.", name="ackTimeout"
    )
    connect_timeout_s: float = setting(
        COUNT, 30, "Seconds to wait for the broker to accept the connection.", name="connectTimeout"
    )
    connect_attempts: int = setting(COUNT, 3, "How often a task tries to reach the broker.", name="connectAttempts")
    is_encrypted: bool | None = optional(Flag(), "Whether TLS is spoken; without, where `tlsCa` is given.", name="tls")
    verify: bool = setting(Flag(), True, "Whether the broker's certificate and name are checked.", name="tlsVerify")
    tls: ClientTls | None = None
    protocol: str = V5
    keepalive_s: int = 30
    is_bridge: bool = False
    outbound: OutboundConfig = UNBOUNDED
    declared_at: str = "options"
    has_topic_of_row: bool = False  # then one that is forbidden is a fault of the row

    @staticmethod
    def of(options: Mapping[str, str]) -> "SinkOptions":
        """Take the options of a write apart."""
        read = SinkOptions(**read_options(SinkOptions, options, SINK_HINTS))
        is_encrypted = read.tls_ca is not None if read.is_encrypted is None else read.is_encrypted
        tls = ClientTls(read.tls_ca or "", read.tls_cert or "", read.tls_key or "", read.verify)
        return replace(read, tls=tls) if is_encrypted else read

    def __repr__(self) -> str:
        return f"SinkOptions({self.host}:{self.port}, clientid={self.clientid!r}, qos={self.qos})"
