"""How options that Spark hands over as text are taken apart, and what both directions have in common.

An unknown option would be passed over, and what is read or published would not be what was meant. So it is refused,
with the name that it is close to, or the one that has its meaning here where it is an option of Spark's Kafka source.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, Final

from heliograph.hocon.values import Content
from heliograph.pipeline.errors import OptionError
from heliograph.settings.fields import optional, settings_of
from heliograph.settings.kinds import AnyText, Boolean, Integer, Kind, RefusedError

COUNT: Final = Integer(1)

#: Options of a streaming write that are Spark's own, and handed on to the sink.
_OF_SPARK: Final = ("checkpointlocation",)
_KAFKA: Final = "kafka."


class Flag(Boolean):
    """`true` or `false` in letters of any case, as Spark has them."""

    def convert(self, value: Content) -> bool:
        """Also the words of Python."""
        return super().convert(value.lower() if isinstance(value, str) else value)


@dataclass(frozen=True, kw_only=True)
class TlsFiles:
    """The files of TLS, which are read where the connection is made: on driver and workers."""

    tls_ca: str | None = optional(AnyText("a file"), "PEM file with the authorities to trust.", name="tlsCa")
    tls_cert: str | None = optional(AnyText("a file"), "PEM file with a certificate to show.", name="tlsCert")
    tls_key: str | None = optional(AnyText("a file"), "PEM file with its key.", name="tlsKey")


def parse_endpoint(option: str, text: str, example: str) -> tuple[str, int]:
    """Take ``host:port`` (or ``[v6 address]:port``) apart."""
    host, _, port = text.rpartition(":")
    if not host or not port.isascii() or not port.isdigit() or not 0 < int(port) < 65536:
        raise OptionError(option, text, f"host:port, such as {example}")
    return host.removeprefix("[").removesuffix("]"), int(port)


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
