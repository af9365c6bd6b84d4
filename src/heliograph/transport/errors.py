"""Errors of the operator that keep a listener from opening; each names the setting to change."""

from typing import ClassVar


class ListenerError(Exception):
    """A listener cannot be opened; the message says which, why, and which setting to change."""

    code: ClassVar[str] = "listener_bind"


class CertificateError(ListenerError):
    """A certificate, key or list of authorities cannot be read, or they do not fit together."""

    code: ClassVar[str] = "listener_certificate"
