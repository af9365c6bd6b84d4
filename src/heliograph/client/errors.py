"""Why a client cannot go on, each with the exit code of a command, which is mosquitto's where it has one."""

from __future__ import annotations

from typing import Final

from heliograph.mqtt import packets as p
from heliograph.mqtt import properties as props
from heliograph.mqtt import reason_codes as rc

EXIT_FAILED: Final = 1
EXIT_USAGE: Final = 2
EXIT_CONNECTION_LOST: Final = 7
EXIT_TLS: Final = 8
EXIT_TIMED_OUT: Final = 27


class ClientError(Exception):
    """A client cannot go on."""

    code = "client"
    exit_code: int = EXIT_FAILED


class BrokerUnreachableError(ClientError):
    """No connection to the broker can be made."""

    code = "client_unreachable"

    def __init__(self, text: str, exit_code: int = EXIT_FAILED) -> None:
        super().__init__(text)
        self.exit_code = exit_code


class DeniedError(ClientError):
    """The broker refused what was asked for.

    Args:
        what: What it refused.
        code: The reason code.
        properties: Of its answer, with a reason in words perhaps.
        version: The protocol version: a refused connection of MQTT 3 ends with that version's return code.
    """

    code = "client_refused"

    def __init__(self, what: str, code: int, properties: props.Properties | None, version: int) -> None:
        self.reason_code = code
        super().__init__(f"{what}: {reason_text(code, properties, version)}")
        self.exit_code = code if version == p.V5 else rc.connack_return_code(code)


def reason_text(code: int, properties: props.Properties | None, version: int) -> str:
    """What a broker says by a reason code, for people, with its own words if it gives some."""
    reason = "" if properties is None else properties.strings.get(props.REASON_STRING, "")
    number = f"0x{code:02x}" if version == p.V5 else f"code {rc.connack_return_code(code)}"
    return f"{rc.name_of(code).replace('_', ' ')} ({number}){': ' if reason else ''}{reason}"


class LostError(ClientError):
    """The connection ended."""

    code = "client_connection_lost"
    exit_code = EXIT_CONNECTION_LOST


class LateError(ClientError):
    """The broker did not answer in time."""

    code = "client_timeout"
    exit_code = EXIT_TIMED_OUT
