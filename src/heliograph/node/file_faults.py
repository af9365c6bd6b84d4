"""Checks the files that a valid configuration names, without which a node cannot start: certificates, tokens, rules."""

from collections.abc import Iterator

from heliograph.config.authorization import FileSourceConfig
from heliograph.config.listeners import SslListener, WssListener, enabled
from heliograph.config.settings import Config
from heliograph.storage.reader.configured import reader_security
from heliograph.storage.reader.security import ReaderSettingsError
from heliograph.transport.certificates import Certificates
from heliograph.transport.errors import CertificateError

Fault = tuple[tuple[str, ...], str]


def file_faults(config: Config) -> Iterator[Fault]:
    """The path of each setting whose file would stop a start, and why; reads files."""
    yield from _listeners(config)
    yield from _flight(config)
    yield from _rules(config)


def _listeners(config: Config) -> Iterator[Fault]:
    for kind, name, settings in enabled(config.listeners):
        if not isinstance(settings, SslListener | WssListener):
            continue
        try:
            Certificates(f"listeners.{kind}.{name}", settings.ssl_options)
        except CertificateError as error:
            yield ("listeners", kind, name, "ssl_options"), str(error)


def _flight(config: Config) -> Iterator[Fault]:
    flight = config.durable_storage.flight
    if not flight.enable:
        return
    path = ("durable_storage", "flight")
    try:
        security = reader_security(flight)
        security.certificate()
        security.authorities()
    except ReaderSettingsError as error:
        yield path, str(error)


def _rules(config: Config) -> Iterator[Fault]:
    for number, settings in enumerate(config.authorization.sources, 1):
        if settings.enable and isinstance(settings, FileSourceConfig):
            from heliograph.access.authorization.file import AclFileError, FileSource

            try:
                FileSource(settings.type, settings.path)
            except AclFileError as error:
                yield ("authorization", "sources", str(number)), str(error)
