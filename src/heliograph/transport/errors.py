"""Errors of the operator that keep a listener from opening; each names the setting to change."""

from typing import ClassVar


class ListenerError(Exception):
    """A listener cannot be opened; the message says which, why, and which setting to change."""

    code: ClassVar[str] = "listener_bind"


class UnknownListenerError(ListenerError):
    """No listener that is enabled has that name."""

    code: ClassVar[str] = "listener_unknown"


class ListenerBusyError(ListenerError):
    """The listeners are being changed; what was asked for can be asked for again when that is done."""

    code: ClassVar[str] = "listener_busy"


class CertificateError(ListenerError):
    """A certificate, key or list of authorities cannot be read, or they do not fit together."""

    code: ClassVar[str] = "listener_certificate"
