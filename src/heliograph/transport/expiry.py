"""When a certificate expires, read from its file: the standard library shows that of peers only."""

import ssl
from datetime import UTC, datetime
from typing import Final

_BEGIN: Final = "-----BEGIN CERTIFICATE-----"
_END: Final = "-----END CERTIFICATE-----"
_VERSION: Final = 0xA0
_UTC_TIME: Final = 0x17  # with two digits of the year


def expires_at_s(pem: str) -> int:
    """When the first certificate of a PEM file expires, in seconds since the epoch.

    Raises:
        ValueError: It holds none.
    """
    if _BEGIN not in pem:
        raise ValueError("no certificate")
    block = _BEGIN + pem.partition(_BEGIN)[2].partition(_END)[0] + _END
    certificate = ssl.PEM_cert_to_DER_cert(block)
    # RFC 5280: Certificate { tbsCertificate { [0] version?, serial, signature, issuer, validity { from, until } ...
    _, at, _ = _element(certificate, 0)
    _, at, _ = _element(certificate, at)
    tag, _, end = _element(certificate, at)
    for _ in range(4 if tag == _VERSION else 3):
        tag, _, end = _element(certificate, at)
        at = end
    _, at, _ = _element(certificate, at)
    _, _, at = _element(certificate, at)
    tag, begin, end = _element(certificate, at)
    text = certificate[begin:end].decode("ascii")
    form = "%y%m%d%H%M%SZ" if tag == _UTC_TIME else "%Y%m%d%H%M%SZ"
    return int(datetime.strptime(text, form).replace(tzinfo=UTC).timestamp())


def _element(data: bytes, at: int) -> tuple[int, int, int]:
    """The tag of the DER element there, and where its content begins and ends.

    Raises:
        ValueError: There is none.
    """
    if at + 2 > len(data):
        raise ValueError("the certificate is cut off")
    length, begin = data[at + 1], at + 2
    if length & 0x80:
        begin += length & 0x7F
        length = int.from_bytes(data[at + 2 : begin], "big")
    if begin + length > len(data):
        raise ValueError("the certificate is cut off")
    return data[at], begin, begin + length
