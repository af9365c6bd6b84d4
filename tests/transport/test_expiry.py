"""When certificates expire, against what another library reads."""

from pathlib import Path

import pytest
from cryptography.x509 import load_pem_x509_certificate

from heliograph.transport.certificates import expires_at_s
from support.cases import cases
from support.certificates import Authority


def test_a_certificate_says_when_it_expires(tmp_path: Path) -> None:
    pem = Authority(tmp_path).server("localhost").read_text()
    found = pem[pem.index("-----BEGIN CERTIFICATE") :]
    assert expires_at_s(pem) == load_pem_x509_certificate(found.encode()).not_valid_after_utc.timestamp()


@cases(
    "pem", ["", "no", "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----", "-----BEGIN CERTIFICATE-----\n%"]
)
def test_what_is_none_is_refused(pem: str) -> None:
    with pytest.raises(ValueError, match=r"certificate|PEM|base64|padding"):
        expires_at_s(pem)
