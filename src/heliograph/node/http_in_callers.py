"""Who may send requests to sources of the type `http_in`: callers that show a token, or sign the body, or both.

A file with a secret is read whenever it is used, so that it can be changed while the node runs. While it cannot be
read, what it had before holds.
"""

import base64
import binascii
import hashlib
import hmac
import logging
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

from heliograph.settings.secrets import Secret, SecretError

if TYPE_CHECKING:
    from heliograph.config.sources.http import BodySignature, HttpInParameters

_log = logging.getLogger(__name__)

_NO_TOKEN: Final = bytes(32)


class HttpInCallers:
    """The secrets of the sources of a configuration; owned by `SourcesPart`, with another one for each change.

    Args:
        parameters: Of the sources, by their ids.
        warn: Called with what is wrong with a file that had a secret before.

    Raises:
        SecretError: The file of a secret cannot be read, or what it has is too short.
    """

    def __init__(self, parameters: "Mapping[str, HttpInParameters]", warn: Callable[[str], None]) -> None:
        self._tokens: dict[str, _Watched] = {}
        self._signatures: dict[str, tuple[BodySignature, _Watched]] = {}
        for source_id, one in parameters.items():
            where = f"sources.{source_id.replace(':', '.', 1)}.parameters"
            if one.token is not None:
                self._tokens[source_id] = _Watched(one.token, f"{where}.token", warn)
            if one.hmac is not None:
                self._signatures[source_id] = one.hmac, _Watched(one.hmac.secret, f"{where}.hmac.secret", warn)

    def header_of(self, source_id: str) -> str:
        """The header with the signature of a body; empty where none is asked for."""
        found = self._signatures.get(source_id)
        return "" if found is None else found[0].header

    def admits(self, source_id: str, token: str) -> bool:
        """Whether a caller with a token may send a body, which has yet to be signed where `header_of` says so."""
        known = self._tokens.get(source_id)
        # In the same time for a source that is not there.
        is_right = hmac.compare_digest(_digest(token), _NO_TOKEN if known is None else _digest(known.text))
        return is_right if known is not None else source_id in self._signatures

    def is_signed(self, source_id: str, signature: str, body: bytes) -> bool:
        """Whether a body has the signature that a source asks for, if it asks for one."""
        found = self._signatures.get(source_id)
        if found is None:
            return True
        form, secret = found
        wanted = hmac.digest(secret.text.encode(), body, form.algorithm)
        has_prefix = signature.startswith(form.prefix)
        return hmac.compare_digest(_decoded(signature[len(form.prefix) :], form.encoding), wanted) and has_prefix

    def __repr__(self) -> str:
        return f"HttpInCallers({', '.join({*self._tokens, *self._signatures})})"


class _Watched:
    """A secret as it is now."""

    def __init__(self, secret: Secret, where: str, warn: Callable[[str], None]) -> None:
        self._secret = secret
        self._where = where
        self._warn = warn
        self._text = self._read()

    @property
    def text(self) -> str:
        try:
            self._text = self._read()
        except SecretError as error:
            self._warn(f"{error}; what it had before holds")
        return self._text

    def _read(self) -> str:
        from heliograph.config.sources.http import TOKEN_LENGTH_MIN  # most configurations have none

        text = self._secret.reveal()
        if len(text) < TOKEN_LENGTH_MIN:
            what = f"{self._where}: its file has a secret of {len(text)} characters"
            raise SecretError(f"{what}; {TOKEN_LENGTH_MIN} at least keep strangers out")
        return text


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).digest()


def _decoded(signature: str, encoding: str) -> bytes:
    """The bytes of a signature; none for what is not one."""
    try:
        text = signature.strip().encode("ascii")
        return base64.b64decode(text, validate=True) if encoding == "base64" else binascii.unhexlify(text)
    except ValueError:
        return b""
