"""A client's side of SCRAM over MQTT 5, written from RFC 5802 and not from the broker's code."""

import hashlib
import hmac
from base64 import b64decode, b64encode

from heliograph.mqtt import packets as p
from heliograph.mqtt import properties as props
from heliograph.mqtt import reason_codes as rc
from support.packets import properties
from support.running import MqttClient

_NAMES = {"sha256": "SCRAM-SHA-256", "sha512": "SCRAM-SHA-512"}


class ScramClient:
    """Carries out exchanges; a test may change what it says.

    Attributes:
        method: The Authentication Method.
        name: The user name in the exchange.
        password: Its password.
    """

    def __init__(self, digest: str, name: str, password: bytes) -> None:
        self.method = _NAMES[digest]
        self.name = name
        self.password = password
        self._digest = digest
        self._nonce = "fyko+d2lbbFgONRv9qkxdawL"

    @property
    def first(self) -> bytes:
        """Its first message."""
        return f"n,,n={self.name},r={self._nonce}".encode()

    def final(self, server_first: bytes) -> tuple[bytes, bytes]:
        """Its last message, and what the server must answer."""
        fields = dict(field.split("=", 1) for field in server_first.decode().split(","))
        salted = hashlib.pbkdf2_hmac(self._digest, self.password, b64decode(fields["s"]), int(fields["i"]))
        client_key = hmac.digest(salted, b"Client Key", self._digest)
        without_proof = f"c=biws,r={fields['r']}".encode()
        said = self.first[3:] + b"," + server_first + b"," + without_proof
        signature = hmac.digest(hashlib.new(self._digest, client_key).digest(), said, self._digest)
        proof = bytes(a ^ b for a, b in zip(client_key, signature, strict=True))
        server_key = hmac.digest(salted, b"Server Key", self._digest)
        expected = b"v=" + b64encode(hmac.digest(server_key, said, self._digest))
        return without_proof + b",p=" + b64encode(proof), expected

    async def connect(self, connection: MqttClient, username: str | None = None) -> int:
        """Connect: the reason code with which it ends."""
        connection.send_connect(
            "c", username=username, authentication_method=self.method, authentication_data=self.first
        )
        challenge = await connection.take(p.Auth | p.Connack)  # type: ignore[arg-type]  # isinstance takes a union
        if isinstance(challenge, p.Connack):
            return challenge.code
        last, expected = self.final(_data(challenge))
        self._say(connection, rc.CONTINUE_AUTHENTICATION, last)
        connack = await connection.take(p.Connack)
        if connack.code == rc.SUCCESS:
            assert _data(connack) == expected
        return connack.code

    async def renew(self, connection: MqttClient) -> int:
        """Authenticate again: the reason code of the last AUTH or of DISCONNECT."""
        self._say(connection, rc.REAUTHENTICATE, self.first)
        challenge = await connection.take(p.Auth)
        last, expected = self.final(_data(challenge))
        self._say(connection, rc.CONTINUE_AUTHENTICATION, last)
        answer = await connection.take(p.Auth | p.Disconnect)  # type: ignore[arg-type]  # as above
        if isinstance(answer, p.Auth):
            assert _data(answer) == expected
        return answer.code

    def _say(self, connection: MqttClient, code: int, data: bytes) -> None:
        connection.send(p.Auth(code, properties(authentication_method=self.method, authentication_data=data)))


def _data(packet: p.Auth | p.Connack) -> bytes:
    return packet.properties.binaries[props.AUTHENTICATION_DATA]
