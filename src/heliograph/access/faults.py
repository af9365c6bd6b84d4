"""What is wrong with authenticators and sources of a configuration that only a language or a library knows."""

from collections.abc import Iterator

from heliograph.access.authentication.expressions import expression_faults
from heliograph.access.authentication.members import Path, chain_settings
from heliograph.access.backends.sql import query_fault
from heliograph.access.templates import TemplateError
from heliograph.access.templates.values import AUTHENTICATION_NAMES, QUERY_NAMES
from heliograph.access.templates.web import UrlTemplate
from heliograph.config.authentication import CinfoConfig, JwtConfig
from heliograph.config.backends.http import HttpRequest
from heliograph.config.backends.sql import SqlConnection
from heliograph.config.settings import Config


def authentication_faults(config: Config) -> Iterator[tuple[Path, str]]:
    """The paths, and what is wrong there."""
    for _, path, listed in chain_settings(config):
        for number, settings in enumerate(listed, 1):
            place = (*path, str(number))
            if settings.precondition.strip():
                for problem in expression_faults([settings.precondition]):
                    yield (*place, "precondition"), problem
            if isinstance(settings, JwtConfig):
                yield from _key_faults(settings, place)
            if isinstance(settings, HttpRequest):
                try:
                    UrlTemplate(settings.url, AUTHENTICATION_NAMES)
                except TemplateError as error:
                    yield (*place, "url"), str(error)
            if isinstance(settings, SqlConnection) and (problem := query_fault(settings, AUTHENTICATION_NAMES)):
                yield (*place, "query"), problem
            if isinstance(settings, CinfoConfig):
                for position, check in enumerate(settings.checks, 1):
                    for problem in expression_faults(check.is_match):
                        yield (*place, "checks", str(position), "is_match"), problem


def source_faults(config: Config) -> Iterator[tuple[Path, str]]:
    """The paths, and what is wrong there."""
    for number, settings in enumerate(config.authorization.sources, 1):
        if isinstance(settings, SqlConnection) and (problem := query_fault(settings, QUERY_NAMES)):
            yield ("authorization", "sources", str(number), "query"), problem


def _key_faults(settings: JwtConfig, place: Path) -> Iterator[tuple[Path, str]]:
    """Only a key that stands in the settings; files are read when the authenticator is made."""
    if not settings.use_jwks and settings.algorithm == "public-key" and "-----BEGIN" in settings.public_key:
        from heliograph.access.authentication.jwt_keys import (  # with a library, which takes time
            KeyUnusableError,
            pem_key,
        )

        try:
            pem_key(settings.public_key)
        except KeyUnusableError as error:
            yield (*place, "public_key"), str(error)
