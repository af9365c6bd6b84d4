"""Client attributes: what variform expressions make of a client that connects.

They are made once for each connection, before authentication, and do not change while it lasts. An expression that
fails or gives nothing sets nothing: a client is not refused for it.
"""

import logging
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from heliograph.broker.client import ClientInfo
from heliograph.config.mqtt import ClientAttribute
from heliograph.config.settings import Config
from heliograph.mqtt import packets as p
from heliograph.observe.bounded_log import BoundedLog
from heliograph.rules.environment import Environment
from heliograph.rules.values import Value
from heliograph.rules.variform import Variform, VariformError, VariformEvaluationError

VARIABLES: Final = (
    *("clientid", "username", "cn", "dn", "peerhost", "peername", "sockname", "listener", "zone", "protocol"),
    *("proto_name", "proto_ver", "clean_start", "keepalive", "user_property", "client_attrs"),
)
"""What the expressions may read."""

_VALUE_BYTES_MAX: Final = 65_535  # as for any text of a packet


class ClientAttributes:
    """The attributes that clients of one zone get; it holds nothing of any client. Owned by the node."""

    def __init__(
        self, settings: Sequence[ClientAttribute], log: BoundedLog, environment: Environment | None = None
    ) -> None:
        self._expressions = [(one.set_as_attr, _compiled(one.expression, environment)) for one in settings]
        self._log = log
        self.made = 0
        self.empty = 0
        self.failed = 0

    def of(self, client: ClientInfo, connect: p.Connect) -> Mapping[str, str]:
        attributes: dict[str, str] = {}
        seen: dict[str, Value] = {}
        bindings = {**_bindings(client, connect), "client_attrs": seen}
        for name, expression in self._expressions:
            text = self._text(name, expression, bindings, client)
            if text:
                seen[name] = attributes[name] = text
                self.made += 1
        return attributes

    def _text(self, name: str, expression: Variform, bindings: Mapping[str, Value], client: ClientInfo) -> str:
        try:
            text = expression.render(bindings)
            if not text:
                self.empty += 1
                return ""
            return _checked(text)
        except VariformEvaluationError as error:
            problem = error.problem
        except Exception as error:  # noqa: BLE001 - whatever a client sends, it costs no more than an attribute
            problem = f"{type(error).__name__}: {error}"
        self.failed += 1
        self._log.write(logging.DEBUG, "client %.200r gets no attribute %s: %.300s", client.clientid, name, problem)
        return ""


def _checked(text: str | bytes) -> str:
    if isinstance(text, bytes):
        raise ValueError("the result is not valid UTF-8")
    if "\0" in text:
        raise ValueError("the result holds U+0000")
    if len(text.encode()) > _VALUE_BYTES_MAX:
        raise ValueError(f"the result has more than {_VALUE_BYTES_MAX} bytes")
    return text


def _bindings(client: ClientInfo, connect: p.Connect) -> dict[str, Value]:
    bindings: dict[str, Value] = {
        "clientid": client.clientid,
        "username": client.username,
        "peerhost": client.peerhost,
        "peername": client.peername,
        "sockname": client.sockname,
        "listener": client.listener,
        "zone": client.zone,
        "protocol": "mqtt",
        "proto_name": "MQIsdp" if client.version == p.V3_1 else "MQTT",
        "proto_ver": int(client.version),
        "clean_start": client.clean_start,
        "keepalive": int(client.keepalive_s),
        "user_property": dict(connect.properties.user),
    }
    # Without a certificate there are none, so that what only reads them sets nothing.
    if client.common_name is not None:
        bindings["cn"] = client.common_name
    if client.subject is not None:
        bindings["dn"] = client.subject
    return bindings


def client_attribute_faults(config: Config) -> Iterator[tuple[tuple[str, ...], str]]:
    """Each expression that cannot be used: the path of its setting, and what is wrong with it."""
    yield from _faults(("mqtt",), config.mqtt.client_attrs_init)
    for name, zone in config.zones.items():
        if zone.mqtt.client_attrs_init is not config.mqtt.client_attrs_init:  # of its own
            yield from _faults(("zones", name, "mqtt"), zone.mqtt.client_attrs_init)


def _faults(path: tuple[str, ...], settings: Sequence[ClientAttribute]) -> Iterator[tuple[tuple[str, ...], str]]:
    for number, one in enumerate(settings, 1):
        place = (*path, "client_attrs_init", str(number), "expression")
        try:
            expression = _compiled(one.expression)
        except VariformError as error:
            yield place, str(error)
            continue
        unknown = sorted(expression.variables() - set(VARIABLES))
        if unknown:
            yield place, f"there is no variable {unknown[0]}; there are {', '.join(VARIABLES)}"


def _compiled(text: str, environment: Environment | None = None) -> Variform:
    expression = Variform(text, environment)
    expression.check_calls()
    return expression
