"""Settings of `pipeline`: the pipeline that a node runs beside itself."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from heliograph.hocon.values import Content, Node, Plain
from heliograph.settings.fields import setting
from heliograph.settings.kinds import AnyText, Boolean, Duration, Kind, PemFile, RefusedError, SecretText, Text
from heliograph.settings.secrets import Secret


class SparkConf(Kind[tuple[tuple[str, str], ...]]):
    """Settings of Spark by their names."""

    expected = 'an object of Spark settings, as in { "spark.driver.memory" = "2g" }'

    def convert(self, value: Content) -> tuple[tuple[str, str], ...]:
        """Values are text, numbers or booleans."""
        if not isinstance(value, dict):
            raise RefusedError
        return tuple(self._items("", value))

    def plain(self, value: tuple[tuple[str, str], ...]) -> dict[str, Plain]:
        return dict(value)

    def _items(self, prefix: str, value: Mapping[str, Node]) -> Iterator[tuple[str, str]]:
        # Without quotes a dot makes an object of what Spark takes for one name.
        for name, node in value.items():
            if isinstance(node.value, dict):
                yield from self._items(f"{prefix}{name}.", node.value)
            elif isinstance(node.value, bool):
                yield prefix + name, "true" if node.value else "false"
            elif isinstance(node.value, str | int | float):
                yield prefix + name, str(node.value)
            else:
                raise RefusedError


@dataclass(frozen=True, slots=True)
class PipelineConfig:
    """The pipeline on Apache Spark that a node starts, watches and stops as a process of its own."""

    enable: bool = setting(Boolean(), False, "Whether the node runs a pipeline; it needs the extra `pipeline`.")
    file: str = setting(
        AnyText("a file or directory, or empty"),
        "",
        "The pipeline's file, or a directory of them, relative to the working directory. Empty: it runs only "
        "what `actions` say.",
    )
    checkpoint: str = setting(
        AnyText("a directory, or empty"),
        "",
        "Where the pipeline keeps its place; empty is `pipeline/checkpoint` in the node's data directory.",
    )
    output: str = setting(
        AnyText("a directory, or empty"),
        "",
        "Directory of its tables; empty is `pipeline/output` in the node's data directory.",
    )
    master: str = setting(Text("a Spark master such as local[*]"), "local[*]", "Spark's master.")
    trigger: float = setting(Duration(0.01), 1.0, "Pace of its micro-batches.")
    start: str = setting(
        Text("earliest, latest or a time"), "earliest", "Where queries begin that have no checkpoint yet."
    )
    token: Secret = setting(
        SecretText(may_be_empty=True),
        Secret(),
        "The token for the storage reader, where `durable_storage.flight` asks for one.",
    )
    tls_ca: str = setting(
        PemFile("a PEM file, or empty"),
        "",
        "The authorities of the storage reader's certificate, where it speaks TLS.",
    )
    spark_conf: tuple[tuple[str, str], ...] = setting(SparkConf(), (), "Spark's configuration, by Spark's names.")
