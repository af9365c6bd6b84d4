"""Schemas as a configuration describes them."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from heliograph.config.schemas import ExternalRegistry, SchemaConfig, SchemaRegistryConfig
from heliograph.rules.schemas.interface import SPARKPLUG_B
from heliograph.rules.schemas.registry import build_schema
from heliograph.rules.schemas.settings import CONFLUENT, EXTERNAL_HTTP, HttpService, SchemaSettings, SchemaSourceError

if TYPE_CHECKING:  # Spark's workers read schemas, and no other settings of a node
    from heliograph.config.settings import Config

Path = tuple[str, ...]

_BLAMED = {EXTERNAL_HTTP: "parameters", CONFLUENT: "url"}


def schema_settings(name: str, config: SchemaConfig) -> SchemaSettings:
    service = _service(config) if config.type == EXTERNAL_HTTP else None
    return SchemaSettings(name, config.type, config.source.files, config.source.root, service)


def registry_settings(config: SchemaRegistryConfig) -> tuple[SchemaSettings, ...]:
    schemas = (schema_settings(name, schema) for name, schema in config.schemas.items() if schema.type)
    external = config.external.items()
    registries = (external_registry_settings(name, registry) for name, registry in external if registry.url)
    return (*schemas, *registries)


def external_registry_settings(name: str, config: ExternalRegistry) -> SchemaSettings:
    auth = (config.auth.username, config.auth.password.reveal()) if config.auth.username else None
    service = HttpService(
        url=config.url,
        connect_timeout_s=config.connect_timeout,
        request_timeout_s=config.request_timeout,
        tls=config.ssl,
        basic_auth=auth,
    )
    return SchemaSettings(name, CONFLUENT, service=service)


def _service(config: SchemaConfig) -> HttpService:
    parameters = config.parameters
    return HttpService(
        url=parameters.url,
        method=parameters.method,
        headers=parameters.headers,
        external_params=parameters.external_params,
        connect_timeout_s=parameters.connect_timeout,
        request_timeout_s=parameters.request_timeout,
        retries_max=parameters.max_retries,
        pool_size=parameters.pool_size,
        response_bytes_max=parameters.max_response_size,
        tls=parameters.ssl,
    )


def schema_faults(config: "Config") -> Iterator[tuple[Path, str]]:
    """Each schema of a configuration that cannot be used: the path of its setting, and what is wrong with it."""
    for settings in registry_settings(config.schema_registry):
        name = settings.name
        path = ("schema_registry", "external" if settings.type == CONFLUENT else "schemas", name)
        if name == SPARKPLUG_B:
            yield path, f"the schema {SPARKPLUG_B} is built in; choose another name"
            continue
        try:
            build_schema(settings)
        except SchemaSourceError as error:
            yield (*path, _BLAMED.get(settings.type, "source")), str(error)
