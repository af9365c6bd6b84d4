"""SCRAM as RFC 5802 and RFC 7677 have it."""

from base64 import b64decode, b64encode

import pytest

from heliograph.access.users.records import ScramUser
from heliograph.access.users.scram import ClientFirst, ScramError, ScramExchange, scram_keys
from support.cases import cases

FIRST = b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
SERVER_NONCE = b"%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
FINAL = b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
SALT = b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")


def user(password: bytes = b"pencil", digest: str = "sha256") -> ScramUser:
    keys = scram_keys(digest, password, SALT, 4096)
    return ScramUser(keys.stored_key, keys.server_key, SALT, 4096, digest)


def exchange(password: bytes = b"pencil") -> ScramExchange:
    return ScramExchange(ClientFirst(FIRST), user(password), SERVER_NONCE)


def test_the_example_of_rfc_7677() -> None:
    example = exchange()
    assert example.server_first == (
        b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
    )
    assert example.finish(FINAL) == b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="


@cases(
    "final",
    [
        FINAL.replace(b"p=d", b"p=e"),
        FINAL.replace(b"%hv", b"%hw"),
        FINAL.replace(b"c=biws", b"c=" + b64encode(b"y,,")),
        FINAL.partition(b",p=")[0],
        FINAL.partition(b",p=")[0] + b",p=AAAA",
        FINAL.partition(b",p=")[0] + b",p=!",
        b"",
        b"\xff" * 10_000,
        FIRST,
    ],
)
def test_a_last_message_that_proves_nothing_is_refused(final: bytes) -> None:
    with pytest.raises(ScramError):
        exchange().finish(final)
    with pytest.raises(ScramError):
        exchange(b"another").finish(FINAL)


@cases(
    ("message", "username"),
    [
        (FIRST, "user"),
        (b"y,,n=user,r=x", "user"),
        (b"n,a=other,n=user,r=x", "user"),
        ("n,,n=ü=2Cb=3Dc,r=x,ext=1".encode(), "ü,b=c"),
    ],
)
def test_a_first_message_names_a_user(message: bytes, username: str) -> None:
    assert ClientFirst(message).username == username


@cases(
    "message",
    [
        b"",
        b"p=tls-unique,,n=user,r=x",
        b"n,,m=ext,n=user,r=x",
        b"n,,n=,r=x",
        b"n,,n=user,r=",
        b"n,,n=us=er,r=x",
        b"n,,n=us=2cer,r=x",
        b"n,,n=\xff,r=x",
        b"n=user,r=x",
        b"n,,n=user,r=" + b"x" * 5000,
    ],
)
def test_a_first_message_that_is_none_is_refused(message: bytes) -> None:
    with pytest.raises(ScramError):
        ClientFirst(message)


def test_every_exchange_has_a_nonce_of_its_own() -> None:
    first = ClientFirst(FIRST)
    assert ScramExchange(first, user()).server_first != ScramExchange(first, user()).server_first
