"""Each family of connection, against a server on a real socket: denied, it is not connected to; allowed, it is."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from heliograph.access.authentication.jwks import JwksKeys
from heliograph.access.backends.http import HttpConnector
from heliograph.access.backends.interface import Connector
from heliograph.access.backends.ldap import LdapConnector
from heliograph.access.backends.live import Backends
from heliograph.access.backends.mongodb import MongoConnector
from heliograph.access.backends.mysql import MysqlConnector
from heliograph.access.backends.postgresql import PostgresqlConnector
from heliograph.access.backends.redis import RedisConnector
from heliograph.actions.reachability import unreachable_reason
from heliograph.config.actions.roots import all_connectors
from heliograph.config.authentication import JwtConfig
from heliograph.config.loading import load_config
from heliograph.config.opentelemetry import OtelExporterConfig
from heliograph.config.single_sign_on import OidcConfig
from heliograph.management.people.provider import Provider, ProviderError
from heliograph.management.telemetry.collector import CollectorError, Signal
from heliograph.management.telemetry.connecting import make_collector
from heliograph.outbound import Dialer, Outbound, OutboundDeniedError
from heliograph.outbound.stores import check_store
from heliograph.rules.schemas import SchemaError
from heliograph.rules.schemas.confluent import ConfluentRegistry
from heliograph.rules.schemas.external_http import ExternalHttpSchema
from heliograph.rules.schemas.settings import HttpService
from heliograph.settings.outbound import OutboundConfig
from heliograph.storage.columnar.offloaded import OffloadError
from heliograph.storage.offload.process import OffloadProcess
from support.alarms import unheard_alarms
from support.cases import cases
from support.names import Names
from support.visited import visited

NO_LOOPBACK = OutboundConfig(allow_loopback=False)
RULE = "outbound.allow_loopback = false"

# Given the port of `db`, what opens a connection to it and says why that failed.
Attempt = Callable[[int, Outbound, Path], Awaitable[str]]


def backend(text: str, connector: Callable[[Any, Dialer], Connector[Any]]) -> Attempt:
    """An authenticator, by its settings and its connector."""

    async def attempt(port: int, outbound: Outbound, directory: Path) -> str:
        file = directory / "node.conf"
        file.write_text(f"authentication = [{{ {text.replace('PORT', str(port))} }}]")
        (settings,) = load_config(file).authentication
        made = connector(settings, outbound.dialer("authentication.1"))
        try:
            await made.close(await made.open())
        except Exception as error:  # noqa: BLE001 - each library has errors of its own
            return made.fault(error).text
        return ""

    return attempt


async def jwks(port: int, outbound: Outbound, directory: Path) -> str:
    file = directory / "node.conf"
    text = f'{{ mechanism = jwt, use_jwks = true, endpoint = "http://db:{port}/keys" }}'
    file.write_text(f"authentication = [{text}]")
    (settings,) = load_config(file).authentication
    assert isinstance(settings, JwtConfig)
    keys = JwksKeys("authentication.1", settings, Backends(unheard_alarms(), outbound))
    await keys.start()
    why = keys.health()
    await keys.stop()
    return why


async def reachability(port: int, outbound: Outbound, directory: Path) -> str:
    file = directory / "node.conf"
    file.write_text(f'connectors.mqtt.there.server = "db:{port}"')
    ((_, _, connector),) = all_connectors(load_config(file).connectors)
    return await unreachable_reason(connector, outbound.dialer("connectors.mqtt.there"))


def schema(kind: type[ExternalHttpSchema] | type[ConfluentRegistry]) -> Attempt:
    async def attempt(port: int, outbound: Outbound, directory: Path) -> str:
        made = kind("there", HttpService(f"http://db:{port}/", retries_max=0), outbound)
        try:
            await asyncio.to_thread(made.decode, b"\0\0\0\0\1x")
        except SchemaError as error:
            return str(error)
        finally:
            made.close()
        return ""

    return attempt


def telemetry(protocol: str) -> Attempt:
    async def attempt(port: int, outbound: Outbound, directory: Path) -> str:
        from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest

        settings = OtelExporterConfig(endpoint=f"http://db:{port}", protocol=protocol)
        collector = make_collector(settings, outbound.dialer("opentelemetry.exporter"))
        try:
            await collector.send(Signal.LOGS, ExportLogsServiceRequest(), 2.0)
        except CollectorError as error:
            return str(error)
        finally:
            await collector.close()
        return ""

    return attempt


async def single_sign_on(port: int, outbound: Outbound, directory: Path) -> str:
    settings = replace(OidcConfig(), issuer=f"http://db:{port}")
    try:
        await Provider(settings, outbound).metadata()
    except ProviderError as error:  # any browser sees it, so it names no address
        return f"{error}: {RULE}" if "the settings outbound deny it" in str(error) else str(error)
    return ""


REDIS = 'mechanism = password_based, backend = redis, cmd = "HMGET u:${username} password_hash"'
SQL = 'database = x, username = u, query = "SELECT password_hash FROM u WHERE name = ${username}"'
FAMILIES: dict[str, Attempt] = {
    "HTTP": backend(
        'mechanism = password_based, backend = http, url = "http://db:PORT/", method = post',
        lambda settings, dialer: HttpConnector(settings, settings.url, dialer),
    ),
    "PostgreSQL": backend(
        f'mechanism = password_based, backend = postgresql, server = "db:PORT", {SQL}', PostgresqlConnector
    ),
    "MySQL": backend(f'mechanism = password_based, backend = mysql, server = "db:PORT", {SQL}', MysqlConnector),
    "Redis": backend(f'{REDIS}, redis_type = single, server = "db:PORT"', RedisConnector),
    "Redis sentinel": backend(f'{REDIS}, redis_type = sentinel, servers = "db:PORT", sentinel = main', RedisConnector),
    "Redis cluster": backend(f'{REDIS}, redis_type = cluster, servers = "db:PORT"', RedisConnector),
    "LDAP": backend(
        'mechanism = password_based, backend = ldap, server = "db:PORT", base_dn = "dc=x", method { type = bind }',
        LdapConnector,
    ),
    "JWKS": jwks,
    "reachability": reachability,
    "schema service": schema(ExternalHttpSchema),
    "schema registry": schema(ConfluentRegistry),
    "OpenTelemetry over HTTP": telemetry("http_protobuf"),
    "OpenTelemetry over gRPC": telemetry("grpc"),
    "single sign-on": single_sign_on,
}


@cases("family", FAMILIES)
async def test_a_denied_server_is_not_connected_to(tmp_path: Path, family: str) -> None:
    """It is while that is allowed, so the address that was checked is the one that was used: only `Names` knows it."""
    outbound = Outbound(resolver=Names(db=["127.0.0.1"]))
    with visited() as server:
        assert RULE not in await FAMILIES[family](server.port, outbound, tmp_path)
        assert server.count() > 0
    outbound.use(NO_LOOPBACK)
    with visited() as server:
        assert RULE in await FAMILIES[family](server.port, outbound, tmp_path)
        assert server.count() == 0
    assert outbound.denied_count


async def test_mongodb_is_looked_at_before(tmp_path: Path) -> None:
    """The library resolves by itself, so a name that only a test knows leads nowhere."""
    text = 'mechanism = password_based, backend = mongodb, mongo_type = single, server = "db:PORT", database = x, '
    attempt = backend(f'{text} collection = u, filter {{ name = "${{username}}" }}', MongoConnector)
    with visited() as server:
        outbound = Outbound(NO_LOOPBACK, Names(db=["127.0.0.1"]))
        await attempt(server.port, outbound, tmp_path)
        assert outbound.denied_count == 1
        assert server.count() == 0


@cases("place", ["s3://b/x?endpoint_override=db:9000&scheme=http", "abfss://c@db/x", "hdfs://db:9000/x"])
async def test_the_servers_of_stores_are_looked_at_before(place: str) -> None:
    dialer = Outbound(NO_LOOPBACK, Names(db=["127.0.0.1"])).dialer("backup.place")
    with pytest.raises(OutboundDeniedError, match=rf"backup.place: 'db' \(127.0.0.1\) is denied by {RULE}"):
        await check_store(dialer, place)


async def test_nothing_is_offloaded_to_a_denied_store(tmp_path: Path) -> None:
    dialer = Outbound(NO_LOOPBACK, Names(db=["127.0.0.1"])).dialer("durable_storage.messages.offload")
    process = OffloadProcess(tmp_path, dialer=dialer)
    with pytest.raises(OffloadError, match=f"durable_storage.messages.offload: 'db' .* is denied by {RULE}"):
        await anext(process.request(do="write", target="s3://b/x?endpoint_override=db:9000"))
    assert process.pid is None


@cases("place", ["/srv/backups", "s3://db/x", "s3://b/x?endpoint_override=unknown:9000"])
async def test_buckets_are_no_servers_and_what_is_not_found_is_left_to_the_library(place: str) -> None:
    await check_store(Outbound(NO_LOOPBACK, Names(db=["127.0.0.1"])).dialer("backup.place"), place)
