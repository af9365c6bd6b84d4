"""`outbound` on a node that runs: what it does by itself, and changes meanwhile."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from heliograph.config.loading import load_config
from heliograph.node.backups import BackupsPart
from heliograph.node.kernel import KernelPart
from heliograph.node.outbound import OutboundPart
from heliograph.settings.errors import ConfigError
from heliograph.storage.backup.errors import BackupFailedError
from support.cases import cases
from support.names import Names
from support.running import RunningNode
from support.webhook import webhook

QUIET = """
listeners.tcp.default.bind = "127.0.0.1:0"
durable_storage { messages.topics = [], flight.enable = false }
"""


@pytest.fixture
async def running(tmp_path: Path) -> AsyncIterator[RunningNode]:
    async with RunningNode(tmp_path, QUIET) as running:
        yield running


@pytest.mark.service
async def test_a_change_holds_for_the_next_connection(running: RunningNode, caplog: pytest.LogCaptureFixture) -> None:
    client = await running.connect("c")
    alarms = running.node.parts.get(KernelPart).alarms
    running.node.parts.get(OutboundPart).outbound.resolver = Names(hook=["127.0.0.1"])

    async def until(name: str, count: int) -> None:
        while running.node.statistics()[name] < count:
            await client.ping()

    with webhook() as service:
        service_settings = f'alarm.webhook {{ enable = true, url = "http://hook:{service.port}/x" }}'
        assert await running.change(service_settings)
        alarms.activate("first", "it is wrong", {})
        await until("alarms.webhook.sent", 1)
        assert await running.change(f'{service_settings}\noutbound.denied_networks = ["127.0.0.0/8"]')
        alarms.activate("second", "it is wrong", {})
        await until("alarms.webhook.failed", 1)
        assert running.node.statistics()["outbound.denied"] == 3  # attempts
        expected = "alarm.webhook: 'hook' (127.0.0.1) is denied by outbound.denied_networks (127.0.0.0/8)"
        assert f"no connection: {expected}" in caplog.text
        assert len(service.requests) == 1
        assert await running.change(service_settings)
        alarms.activate("third", "it is wrong", {})
        await until("alarms.webhook.sent", 2)


async def test_a_backup_is_not_made_to_a_denied_store(running: RunningNode) -> None:
    running.node.parts.get(OutboundPart).outbound.resolver = Names(store=["169.254.1.1"])
    expected = "backup.place: 'store' .169.254.1.1. is denied by outbound.allow_link_local = false"
    with pytest.raises(BackupFailedError, match=expected):
        await running.node.parts.get(BackupsPart).make("s3://b/x?endpoint_override=store:9000", None)


@cases(
    ("text", "setting", "host"),
    [
        ('alarm.webhook { enable = true, url = "http://169.254.169.254/key" }', "alarm.webhook.url", "169.254.169.254"),
        ('connectors.mqtt.a.server = "[fe80::1]:1883"', "connectors.mqtt.a.server", "fe80::1"),
        (
            'schema_registry.external.a { type = confluent, url = "http://169.254.1.1" }',
            "schema_registry.external.a.url",
            "169.254.1.1",
        ),
        (
            'authentication = [{ mechanism = jwt, use_jwks = true, endpoint = "http://169.254.1.1/k" }]',
            "authentication.1.endpoint",
            "169.254.1.1",
        ),
        (
            'authorization.sources = [{ type = http, url = "http://169.254.1.1/?a=${clientid}", method = get }]',
            "authorization.sources.1.url",
            "169.254.1.1",
        ),
        (
            'dashboard.sso.oidc { enable = true, clientid = a, issuer = "https://169.254.1.1" }',
            "dashboard.sso.oidc.issuer",
            "169.254.1.1",
        ),
        (
            'opentelemetry { traces.enable = true, exporter.endpoint = "http://169.254.1.1:4317" }',
            "opentelemetry.exporter.endpoint",
            "169.254.1.1",
        ),
        (
            'prometheus.push_gateway { enable = true, url = "http://169.254.1.1:9091" }',
            "prometheus.push_gateway.url",
            "169.254.1.1",
        ),
        ('backup.place = "s3://b/x?endpoint_override=169.254.1.1:9000"', "backup.place", "169.254.1.1"),
        (
            'durable_storage.messages.offload { enable = true, target = "s3://b/x", '
            'storage_options { endpoint_override = "169.254.1.1:9000" } }',
            "durable_storage.messages.offload.storage_options",
            "169.254.1.1",
        ),
    ],
)
def test_a_setting_that_names_a_denied_server_is_refused(tmp_path: Path, text: str, setting: str, host: str) -> None:
    file = tmp_path / "node.conf"
    file.write_text(text)
    with pytest.raises(ConfigError) as raised:
        load_config(file)
    assert f"{setting}: goes to '{host}', which is denied by outbound.allow_link_local = false (" in str(raised.value)
    file.write_text(f"{text}\noutbound.allow_link_local = true")
    load_config(file)
