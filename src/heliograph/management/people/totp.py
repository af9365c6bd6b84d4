"""The second factor: codes that an authenticator app makes of a secret and the time (RFC 6238), and recovery codes."""

import base64
import hashlib
import hmac
import secrets
from typing import Final
from urllib.parse import quote, urlencode

STEP_S: Final = 30
DIGITS: Final = 6
RECOVERY_CODES: Final = 10
_SECRET_BYTES: Final = 20
_RECOVERY_BYTES: Final = 10  # 80 bits each
_ISSUER: Final = "Heliograph"


def new_totp_secret() -> bytes:
    return secrets.token_bytes(_SECRET_BYTES)


def code_at(secret: bytes, step: int) -> str:
    digest = hmac.digest(secret, step.to_bytes(8), "sha1")
    offset = digest[-1] & 0xF
    number = int.from_bytes(digest[offset : offset + 4]) & 0x7FFFFFFF
    return f"{number % 10**DIGITS:0{DIGITS}d}"


def step_of(secret: bytes, code: str, now_s: float) -> int:
    """The time step that a code belongs to: the present one, or the one before or after it. 0 for none of them.

    All three are compared, so that the time taken does not tell which.
    """
    present = int(now_s) // STEP_S
    given = code.strip().replace(" ", "").encode("utf-8", "surrogatepass")
    found = 0
    for step in (present - 1, present, present + 1):
        if hmac.compare_digest(code_at(secret, step).encode(), given):
            found = step
    return found


def shown(secret: bytes) -> str:
    return base64.b32encode(secret).decode()


def enrolment_uri(secret: bytes, username: str) -> str:
    """What an authenticator app reads from a QR code."""
    query = urlencode(
        {"secret": shown(secret), "issuer": _ISSUER, "algorithm": "SHA1", "digits": DIGITS, "period": STEP_S}
    )
    return f"otpauth://totp/{quote(f'{_ISSUER}:{username}')}?{query}"


def qr_code(uri: str) -> str:
    import segno  # seldom needed

    drawn: str = segno.make(uri, error="m").svg_inline(scale=4, border=4)
    return drawn


def new_recovery_codes() -> list[str]:
    """Codes that are each good for one login without the device."""
    drawn = (base64.b32encode(secrets.token_bytes(_RECOVERY_BYTES)).decode().lower() for _ in range(RECOVERY_CODES))
    return ["-".join(one[start : start + 4] for start in range(0, 16, 4)) for one in drawn]


def recovery_hash_of(code: str) -> bytes:
    """What is kept of a recovery code. It is random: a fast hash gives nothing away."""
    plain = code.strip().lower().replace("-", "").replace(" ", "")
    return hashlib.sha256(plain.encode("utf-8", "surrogatepass")).digest()


def recovery_of(code: str, left: tuple[bytes, ...]) -> bytes:
    """Which of the recovery codes that are left this is; empty for none."""
    given = recovery_hash_of(code)
    found = b""
    for one in left:
        if hmac.compare_digest(one, given):
            found = one
    return found
