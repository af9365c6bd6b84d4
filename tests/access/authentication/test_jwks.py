"""Keys that an issuer publishes: fetched at the start, kept while it is down, and the attacks that they invite."""

import asyncio
import base64
import hashlib
import hmac
import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from jwt.algorithms import ECAlgorithm, RSAAlgorithm

from heliograph.access.authentication.jwt_keys import KeyUnusableError, jwks_keys
from heliograph.access.authentication.part import AuthenticationPart
from heliograph.mqtt import reason_codes as rc
from heliograph.node.kernel import KernelPart
from support.mosquitto import free_port
from support.running import RunningNode
from support.waiting import until
from support.webhook import Answer, Webhook, webhook

NODE = 'listeners.tcp.default.bind = "127.0.0.1:0"'
ALARM = "backend_down/authentication:jwt"
RSA_KEY = rsa.generate_private_key(65537, 2048)
EC_KEY = ec.generate_private_key(ec.SECP256R1())
RSA_JWK = RSAAlgorithm.to_jwk(RSA_KEY.public_key(), as_dict=True)
EC_JWK = ECAlgorithm.to_jwk(EC_KEY.public_key(), as_dict=True)


def jwks(*keys: Mapping[str, object]) -> Answer:
    """An answer with keys."""
    return Answer(200, {"Content-Type": "application/json", "Connection": "close"}, json.dumps({"keys": keys}).encode())


def signed(alg: str = "RS256") -> bytes:
    """A token that one of the keys signed."""
    return jwt.encode({}, RSA_KEY if alg[0] in "RP" else EC_KEY, alg).encode()


def settings(service: Webhook) -> str:
    """A node whose only authenticator has the keys of the issuer."""
    endpoint = f'endpoint = "{service.url}/jwks", refresh_interval = 1h'
    return f"authentication = {{ mechanism = jwt, use_jwks = true, {endpoint} }}"


def alarms(node: RunningNode) -> list[str]:
    """The alarms that go on."""
    return [alarm.name for alarm in node.node.parts.get(KernelPart).alarms.active()]


async def fetched(node: RunningNode) -> None:
    """Wait until there are keys."""
    await until(lambda: not node.node.parts.get(AuthenticationPart).health())


@pytest.mark.service
async def test_keys_are_fetched_and_stay_while_the_issuer_is_down(tmp_path: Path) -> None:
    async with RunningNode(tmp_path, NODE) as node:
        with webhook(free_port()) as service:  # which no other program gets while nothing listens there
            service.answer = lambda request: jwks(RSA_JWK, EC_JWK)
            assert await node.change(settings(service))
            await fetched(node)
            assert service.requests[0].path == "/jwks"
            port = service.port
        assert await node.connack("c", "u", signed()) == rc.SUCCESS
        assert await node.connack("c", "u", signed("ES256")) == rc.SUCCESS
        with webhook(port) as service:
            service.answer = lambda request: Answer(200, {"Connection": "close"}, b"{")
            more = ', verify_claims { a = "b" } }'
            assert await node.change(settings(service).removesuffix("}") + more)  # other settings: it begins anew
            await until(lambda: ALARM in alarms(node))
            assert await node.connack("c", "u", signed()) == rc.NOT_AUTHORIZED
            service.answer = lambda request: jwks(RSA_JWK)
            await until(lambda: ALARM not in alarms(node))
            assert await node.connack("c", "u", signed()) == rc.BAD_USERNAME_OR_PASSWORD
        assert await node.change()
        assert alarms(node) == []


def keys_of(*jwk: Mapping[str, object]) -> int:
    """How many of these keys can be used."""
    try:
        return len(jwks_keys(json.dumps({"keys": jwk}).encode()))
    except KeyUnusableError:
        return 0


def test_keys_that_cannot_check_signatures_are_passed_over() -> None:
    assert keys_of(RSA_JWK, EC_JWK) == 2
    assert keys_of(RSA_JWK | {"use": "enc"}, EC_JWK) == 1
    assert keys_of(RSA_JWK | {"alg": "RSA-OAEP"}) == 0
    assert keys_of(RSA_JWK | {"kty": "oct"}, {"kty": "magic"}, {}) == 0
    assert keys_of(EC_JWK | {"alg": "RS256"}) == 0
    assert keys_of({"kty": "oct", "k": "AAAA", "alg": "none"}, RSA_JWK) == 1
    for body in (b"", b"[]", b"{}", b'{"keys": {}}', b'{"keys": []}', b'{"keys": [1]}'):
        with pytest.raises(KeyUnusableError):
            jwks_keys(body)


def test_a_jwks_with_more_keys_than_can_be_tried_is_refused() -> None:
    assert keys_of(*[EC_JWK] * 100) == 100
    for listed in ([EC_JWK] * 101, [{}] * 1001 + [EC_JWK]):
        with pytest.raises(KeyUnusableError):
            jwks_keys(json.dumps({"keys": listed}).encode())


def mac(secret: bytes, header: Mapping[str, object]) -> bytes:
    """A token with the HMAC of a secret."""
    parts = [
        base64.urlsafe_b64encode(json.dumps(one).encode()).rstrip(b"=") for one in (header, {"is_superuser": True})
    ]
    body = b".".join(parts)
    return body + b"." + base64.urlsafe_b64encode(hmac.digest(secret, body, hashlib.sha256)).rstrip(b"=")


@pytest.mark.service
async def test_public_keys_are_no_secrets_and_no_signature_is_none(tmp_path: Path) -> None:
    pem = RSA_KEY.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    der = RSA_KEY.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    none = base64.urlsafe_b64encode(b'{"alg":"none"}').rstrip(b"=") + b".e30."
    texts = (pem, pem.strip(), der, json.dumps(RSA_JWK).encode(), b"", RSA_JWK["n"].encode())
    forged: Sequence[bytes] = (
        *(mac(text, {"alg": "HS256"}) for text in texts),
        *(mac(pem, {"alg": alg}) for alg in ("none", "None", "nOnE", "RS256", "", "HS512")),
        *(none, none + b"AA", none[:-1], b"..", b"a.b.c"),
        mac(b"x", {"alg": "HS256", "jwk": {"kty": "oct", "k": "eA"}, "jku": "http://127.0.0.1/"}),
        signed()[:-8] + b"AAAAAAAA",
    )
    with webhook() as service:
        service.answer = lambda request: jwks(RSA_JWK)
        async with RunningNode(tmp_path, NODE, settings(service)) as node:
            await fetched(node)
            codes = await asyncio.gather(*(node.connack(f"c{at}", "u", one) for at, one in enumerate(forged)))
            assert set(codes) == {rc.NOT_AUTHORIZED}
            assert await node.connack("c", "u", signed()) == rc.SUCCESS
