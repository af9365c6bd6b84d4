"""A listener's certificates: the TLS context for new handshakes, made again when a file changes.

Connections keep what they began with. Files that cannot be used are logged, and the last good ones stay.

The standard library shows when certificates of peers expire, not those of files: that is read here.
"""

import logging
import os
import ssl
from collections.abc import Callable
from dataclasses import fields
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from heliograph.config.listeners import ServerName, SslOptions
from heliograph.settings.secrets import SecretError
from heliograph.transport.errors import CertificateError

_log = logging.getLogger(__name__)
_VERSIONS: Final = {"tlsv1.2": ssl.TLSVersion.TLSv1_2, "tlsv1.3": ssl.TLSVersion.TLSv1_3}
_Stamp = tuple[tuple[int, int, int] | None, ...]
_BEGIN: Final = "-----BEGIN CERTIFICATE-----"
_END: Final = "-----END CERTIFICATE-----"
_VERSION: Final = 0xA0
_UTC_TIME: Final = 0x17  # with two digits of the year


class Certificates:
    """The TLS context of one listener; owned by it. `CertificateError` if a file cannot be used."""

    def __init__(self, listener: str, options: SslOptions) -> None:
        self._listener = listener
        self._options = options
        self._files = _files(options)
        self._stamp = _stamp(self._files)
        self._expires_for: ssl.SSLContext | None = None
        self._expires_s = 0
        self.context = self._build()

    def reload_if_changed(self) -> None:
        """Use the files' new contents for handshakes from now on, if they changed; if they cannot, the last ones."""
        stamp = _stamp(self._files)
        if stamp == self._stamp:
            return
        self._stamp = stamp
        try:
            self.prepare(self._options)()
        except CertificateError as error:
            _log.error("the certificates of %s stay as they were [%s]: %s", self._listener, error.code, error)

    def prepare(self, options: SslOptions) -> Callable[[], None]:
        """Read the files of these settings; what is returned has handshakes use them from then on."""
        fresh = Certificates(self._listener, options)

        def use() -> None:
            self._options, self._files = options, fresh._files
            self._stamp, self.context = fresh._stamp, fresh.context
            _log.info("the certificates of %s were read again", self._listener)

        return use

    def expires_at_s(self) -> int:
        """When the certificate that clients are shown first expires, in seconds since the epoch; 0 if unknown."""
        if self._expires_for is not self.context:
            self._expires_for = self.context
            try:
                self._expires_s = expires_at_s(Path(self._options.certfile).read_text("ascii", "replace"))
            except (OSError, ValueError):  # a form that only OpenSSL knows
                self._expires_s = 0
        return self._expires_s

    def _build(self) -> ssl.SSLContext:
        options = self._options
        wanted: list[tuple[SslOptions | ServerName, str]] = [(options, "")]
        wanted += [(entry, f"sni.{number}.") for number, entry in enumerate(options.sni, 1)]
        made, problems = [], []
        for one, place in wanted:
            try:
                made.append(self._server_context(one, place))
            except CertificateError as error:
                problems.append(str(error))
        if problems:
            raise CertificateError("; ".join(dict.fromkeys(problems)))
        context, *others = made
        if others:
            names = [entry.server_name.lower() for entry in options.sni]
            context.sni_callback = _Selection(dict(zip(names, others, strict=True))).choose
        return context

    def _server_context(self, shown: SslOptions | ServerName, entry: str) -> ssl.SSLContext:
        options = self._options
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        versions = [_VERSIONS[version] for version in options.versions]
        context.minimum_version = min(versions)
        context.maximum_version = max(versions)
        context.options |= ssl.OP_NO_COMPRESSION | ssl.OP_NO_RENEGOTIATION
        if options.honor_cipher_order:
            context.options |= ssl.OP_CIPHER_SERVER_PREFERENCE
        else:
            context.options &= ~ssl.OP_CIPHER_SERVER_PREFERENCE
        if options.ciphers:
            try:
                context.set_ciphers(options.ciphers)
            except ssl.SSLError:
                raise self._error("ciphers", options.ciphers, "OpenSSL knows none of them for TLS 1.2") from None
        self._load_certificate(context, shown, entry)
        if options.verify:
            self._load_authorities(context)
        return context

    def _load_certificate(self, context: ssl.SSLContext, shown: SslOptions | ServerName, entry: str) -> None:
        certfile, keyfile = shown.certfile, shown.keyfile
        if not certfile:
            raise self._error(f"{entry}certfile", "", "a TLS listener needs a certificate")
        self._check_readable(f"{entry}certfile", certfile)
        if keyfile:
            self._check_readable(f"{entry}keyfile", keyfile)
        try:
            password = shown.password.reveal()
        except SecretError as error:
            raise self._error(f"{entry}password", str(shown.password.file), str(error)) from None
        try:
            # An empty answer, not a question on the terminal, for a key with a password that is not given.
            context.load_cert_chain(certfile, keyfile or None, lambda: password)
        except ssl.SSLError as error:
            raise self._error(
                f"{entry}keyfile", keyfile or certfile, _why_not(error, keyfile or certfile, bool(password))
            ) from None

    def _load_authorities(self, context: ssl.SSLContext) -> None:
        options = self._options
        context.verify_mode = ssl.CERT_REQUIRED if options.fail_if_no_peer_cert else ssl.CERT_OPTIONAL
        self._load_locations(context, "cacertfile", options.cacertfile)
        if options.enable_crl_check:
            self._load_locations(context, "crlfile", options.crlfile)
            if not context.cert_store_stats()["crl"]:  # every client would be refused without a visible reason
                raise self._error("crlfile", options.crlfile, "it holds no revocation list")
            context.verify_flags |= ssl.VERIFY_CRL_CHECK_LEAF

    def _load_locations(self, context: ssl.SSLContext, setting: str, file: str) -> None:
        self._check_readable(setting, file)
        try:
            context.load_verify_locations(file)
        except ssl.SSLError as error:
            raise self._error(setting, file, f"it holds nothing that OpenSSL can read ({error.reason})") from None

    def _check_readable(self, setting: str, file: str) -> None:
        try:
            with open(file, "rb"):
                pass
        except OSError as error:
            raise self._error(setting, file, error.strerror or str(error)) from None

    def _error(self, setting: str, value: str, why: str) -> CertificateError:
        return CertificateError(f'{self._listener}.ssl_options.{setting} = "{value}": {why}')


class _Selection:
    """Picks the certificate by the server name that a client asks for."""

    def __init__(self, by_name: dict[str, ssl.SSLContext]) -> None:
        self._by_name = by_name

    def choose(self, connection: ssl.SSLSocket | ssl.SSLObject, name: str | None, context: ssl.SSLContext) -> None:
        """Called in the handshake; the listener's own certificate stays for names that are not known."""
        if name is None:
            return
        name = name.lower().removesuffix(".")
        chosen = self._by_name.get(name) or self._by_name.get("*." + name.partition(".")[2])
        if chosen is not None:
            connection.context = chosen


def _why_not(error: ssl.SSLError, key: str, has_password: bool) -> str:
    if error.reason == "KEY_VALUES_MISMATCH":
        return "the key does not belong to the certificate"
    if b"ENCRYPTED" in Path(key).read_bytes():
        return "the password is wrong" if has_password else "the key has a password and none is given"
    if error.reason in (None, "NO_START_LINE", "PEM_LIB"):
        return "certificate or key is not PEM"
    return f"OpenSSL says {error.reason}"


def _files(options: SslOptions) -> tuple[str, ...]:
    holders: list[SslOptions | ServerName] = [options, *options.sni]
    names = [
        getattr(holder, field.name) for holder in holders for field in fields(holder) if field.name.endswith("file")
    ]
    return tuple(name for name in names if name)


def _stamp(files: tuple[str, ...]) -> _Stamp:
    return tuple(_file_stamp(file) for file in files)


def _file_stamp(file: str) -> tuple[int, int, int] | None:
    try:
        status = os.stat(file)
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size, status.st_ino


def expires_at_s(pem: str) -> int:
    """When the first certificate of a PEM file expires, in seconds since the epoch; `ValueError` if it holds none."""
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
    """The tag of the DER element there, and where its content begins and ends; `ValueError` if there is none."""
    if at + 2 > len(data):
        raise ValueError("the certificate is cut off")
    length, begin = data[at + 1], at + 2
    if length & 0x80:
        begin += length & 0x7F
        length = int.from_bytes(data[at + 2 : begin], "big")
    if begin + length > len(data):
        raise ValueError("the certificate is cut off")
    return data[at], begin, begin + length
