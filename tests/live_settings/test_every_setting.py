"""Every setting that needs no restart changes on a running node, while a hundred clients stay connected."""

import asyncio
from pathlib import Path

import pytest

from heliograph.config.description import every_setting
from heliograph.mqtt import packets as p
from heliograph.settings.fields import How
from live_settings import (
    probes_access,
    probes_listeners,
    probes_mqtt,
    probes_policies,
    probes_rules,
    probes_services,
    probes_sessions,
    probes_storage,
    probes_tls,
)
from live_settings.table import PROBES, Probe, World
from support.certificates import Authority
from support.running import RunningNode

_PROBES_IN = (
    *(probes_access, probes_listeners, probes_mqtt, probes_policies, probes_sessions, probes_tls),
    *(probes_services, probes_rules, probes_storage),
)
_ROOT = Path(__file__).parents[2]
_CLIENTS = 100
_ACCESS = "tests/access"
# Shown elsewhere on a node that runs: what a process, a file, the control socket or another server shows. An
# authenticator or a source of which any setting is another one is made anew, so its file need not have each of them.
_ELSEWHERE = {
    "log": "tests/node/test_log.py, tests/config_changes/test_audit.py",
    "opentelemetry": "tests/node/test_opentelemetry.py, tests/tracing/test_spans.py",
    "pipeline": "tests/node/test_pipeline_process.py",
    "connectors": "tests/actions/test_pipeline_file.py, tests/management/test_actions.py",
    "actions": "tests/actions/test_pipeline_file.py, tests/management/test_actions.py",
    "sources": "tests/sources/test_mqtt.py, tests/sources/test_sources_killed.py, tests/management/test_webhooks.py",
    "backup": "tests/node/test_backup.py",
    "outbound": "tests/outbound/test_node.py, tests/outbound/test_policy.py",
    "node.control_group": "tests/node/test_control.py",
    "node.tls_dir": "tests/management/test_named_files.py",
    "diagnose.traces": "tests/tracing/test_traces.py",
    "management": "tests/management/test_process.py",
    "dashboard": "tests/management/test_process.py",
    "api_key": "tests/management/test_process.py",
    "prometheus": "tests/management/test_monitoring.py",
    "address_limits": f"{_ACCESS}/bans/test_address_limits.py",
    "authentication.N[password_based:built_in_database]": f"{_ACCESS}/users/test_users_command.py",
    "authentication.N[password_based:mysql]": f"{_ACCESS}/test_sql_backends.py",
    "authentication.N[password_based:postgresql]": f"{_ACCESS}/test_sql_backends.py",
    "authentication.N[password_based:http]": f"{_ACCESS}/authentication/test_http.py",
    "authentication.N[password_based:mongodb]": f"{_ACCESS}/backends/test_mongodb.py",
    "authentication.N[password_based:redis]": f"{_ACCESS}/backends/test_redis.py",
    "authentication.N[password_based:ldap]": f"{_ACCESS}/backends/test_ldap.py",
    "authentication.N[jwt]": f"{_ACCESS}/authentication/test_live.py, {_ACCESS}/authentication/test_jwks.py",
    "authentication.N[scram:built_in_database]": f"{_ACCESS}/users/test_users_command.py",
    "authentication.N[scram:http]": f"{_ACCESS}/authentication/test_http.py",
    "authentication.N[cinfo]": f"{_ACCESS}/authentication/test_chain.py",
    "authentication.N[gssapi:kerberos]": f"{_ACCESS}/authentication/test_gssapi.py",
    "authentication_settings.timeout": f"{_ACCESS}/authentication/test_http.py",
    "authentication_settings.on_failure": f"{_ACCESS}/authentication/test_http.py",
    "authentication_settings.hide_reasons": f"{_ACCESS}/authentication/test_chain.py",
    "authentication_settings.node_cache": f"{_ACCESS}/authentication/test_http.py, {_ACCESS}/test_node_cache.py",
    "authentication_settings.password_checks": f"{_ACCESS}/users/test_users_command.py",
    "authorization.sources.N[file]": f"{_ACCESS}/authorization/test_live.py",
    "authorization.sources.N[built_in_database]": "tests/control/test_ctl_authz.py",
    "authorization.sources.N[http]": f"{_ACCESS}/test_http_source.py",
    "authorization.sources.N[mysql]": f"{_ACCESS}/test_sql_backends.py",
    "authorization.sources.N[postgresql]": f"{_ACCESS}/test_sql_backends.py",
    "authorization.sources.N[mongodb]": f"{_ACCESS}/backends/test_mongodb.py",
    "authorization.sources.N[redis]": f"{_ACCESS}/backends/test_redis.py",
    "authorization.sources.N[ldap]": f"{_ACCESS}/backends/test_ldap.py",
    "alarm": "tests/node/test_sysmon.py",
    "sysmon": "tests/node/test_sysmon.py, tests/node/test_overload.py",
    "conn_congestion": "tests/node/test_sysmon.py",
    "overload_protection": "tests/node/test_overload.py",
    "zones.NAME.conn_congestion": "tests/node/test_sysmon.py",
    "zones.NAME.overload_protection": "tests/node/test_overload.py",
    "authorization.node_cache": f"{_ACCESS}/test_http_source.py",
    "mqtt.bind_session_to_user": "tests/durable/test_owner.py",
    "zones.NAME.mqtt.bind_session_to_user": "tests/durable/test_owner.py",
}

ALWAYS = """
node.name = "heliograph@live"
sys_topics.sys_msg_interval = disabled  # what the node retains counts for the limits of what clients do
durable_storage { messages.topics = [], flight.enable = false }
listeners.tcp.default.bind = "127.0.0.1:0"
listeners.tcp.one { bind = "127.0.0.1:0", zone = one }
listeners.tcp.probe.bind = "127.0.0.1:0"
listeners.ssl.probe.bind = "127.0.0.1:0"
listeners.ssl.probe.ssl_options { certfile = "CERTIFICATE", cacertfile = "AUTHORITY", verify = verify_peer }
listeners.ws.probe.bind = "127.0.0.1:0"
listeners.wss.probe.bind = "127.0.0.1:0"
listeners.wss.probe.ssl_options { certfile = "CERTIFICATE", cacertfile = "AUTHORITY", verify = verify_peer }
zones.one {}
"""


def paths(how: How) -> list[str]:
    """The settings that change in that way, as the documentation names them."""
    rows = (row.split(" | ") for row in every_setting())
    return [row[0].strip("| `") for row in rows if row[-1].rstrip(" |") == how]


def test_every_setting_that_needs_no_restart_has_a_probe() -> None:
    assert len(_PROBES_IN) > 1
    found = {path: how for how in How for path in paths(how)}
    wanted = [path for path, how in found.items() if how is not How.RESTART]
    assert len(wanted) > 300
    probed = {probe.path for probe in PROBES} | set(_ELSEWHERE)
    missing = [path for path in wanted if not any(f"{path}.".startswith(f"{one}.") for one in probed)]
    assert missing == []
    files = [file for text in _ELSEWHERE.values() for file in text.split(", ")]
    assert [file for file in files if not (_ROOT / file).is_file()] == []
    named = {".".join(path.split(".")[:count]) for path in found for count in range(1, 9)}
    assert [one for one in probed if not one.startswith("zones.") and one not in named] == []


@pytest.mark.service
@pytest.mark.parametrize("module", [module.__name__ for module in _PROBES_IN])
async def test_each_holds_on_a_running_node_and_no_connection_is_lost(tmp_path: Path, module: str) -> None:
    authority = Authority(tmp_path)
    always = ALWAYS.replace("CERTIFICATE", str(authority.server())).replace("AUTHORITY", str(authority.cafile))
    async with RunningNode(tmp_path, always) as node:
        clients = [
            await node.connect(f"many{number}", version=(p.V3_1_1, p.V5)[number % 2]) for number in range(_CLIENTS)
        ]
        failed: dict[str, str] = {}
        for probe in (one for one in PROBES if one.run.__module__ == module):
            try:
                await _change(node, probe, authority, tmp_path)
            except Exception as error:  # noqa: BLE001 - the others are tried too
                failed[probe.settings] = f"{type(error).__name__}: {error}"
            lost = [number for number, client in enumerate(clients) if client.is_closed]
            assert lost == [], f"clients were lost with {probe.settings}"
        for client in clients:
            await client.ping()
        assert failed == {}


async def _change(node: RunningNode, probe: Probe, authority: Authority, directory: Path) -> None:
    world = World(node, authority, directory, probe.listener)
    steps = probe.run(world)
    try:
        async with asyncio.timeout(60):
            await anext(steps)
            assert await node.change(probe.settings.replace("DIRECTORY", str(directory))), "the change was refused"
            assert [step async for step in steps] == []
    finally:
        await steps.aclose()  # type: ignore[attr-defined]  # it is a generator
        await world.leave()
        assert await node.change()
