"""The process of the API: it comes and goes, and follows its settings, while clients of the node notice nothing."""

import os
import signal
import socket
from collections.abc import Iterator

import httpx
import psutil
import pytest

from heliograph.cli.main import main
from support.management import ManagedNode
from support.waiting import wait_until


@pytest.fixture(scope="module")
def managed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ManagedNode]:
    """A node whose process of the API tests kill and move."""
    directory = tmp_path_factory.mktemp("moved")
    with ManagedNode(directory, "durable_storage.flight.enable = false", are_programs_copies=False) as node:
        yield node


def _management_pid(node: ManagedNode) -> int:
    (child,) = [one for one in psutil.Process(node.node.pid).children() if "heliograph.management" in one.cmdline()]
    return int(child.pid)


def _set(node: ManagedNode, path: str, value: str) -> None:
    assert main(["ctl", "--data-dir", str(node.data_dir), "conf", "set", f"{path}={value}"]) == 0


def _told(node: ManagedNode) -> str:
    """What the alarm says; empty for none."""
    alarms = node.api.get("/alarms").json()["data"]
    return "".join(alarm["message"] for alarm in alarms if alarm["name"] == "management_down")


def test_clients_of_the_node_come_before_it(managed: ManagedNode) -> None:
    process = psutil.Process(_management_pid(managed))
    assert process.nice() > psutil.Process(managed.node.pid).nice()
    assert os.getsid(process.pid) == os.getsid(managed.node.pid), "Linux compares priorities within a session"


def test_ctrl_c_is_not_for_it(managed: ManagedNode) -> None:
    pid = _management_pid(managed)
    assert os.getpgid(pid) != os.getpgid(managed.node.pid), "Ctrl-C goes to all processes of a group"
    with open(f"/proc/{pid}/status") as status:
        ignored = next(int(line.split()[1], 16) for line in status if line.startswith("SigIgn"))
    assert ignored >> (signal.SIGTTOU - 1) & 1, "a terminal stops a group in its background that writes"


def test_a_process_that_is_killed_comes_back(managed: ManagedNode) -> None:
    before, begin = _management_pid(managed), managed.node.log.stat().st_size
    os.kill(before, signal.SIGKILL)
    managed.again(begin)
    assert httpx.get(f"{managed.url}/status").status_code == 200
    assert _management_pid(managed) != before


def test_it_moves_to_another_address_and_back(managed: ManagedNode) -> None:
    before = managed.url
    _set(managed, "dashboard.listeners.http.bind", '"127.0.0.2:0"')
    wait_until(lambda: "http://127.0.0.2:" in managed.log_text, "it is served at the other address")
    with pytest.raises(httpx.ConnectError):
        httpx.get(f"{before}/status")
    begin = managed.node.log.stat().st_size
    _set(managed, "dashboard.listeners.http.bind", '"127.0.0.1:0"')
    managed.again(begin)
    assert httpx.get(f"{managed.url}/status").status_code == 200


def test_it_stays_where_it_is_while_an_address_or_a_certificate_cannot_be_used(managed: ManagedNode) -> None:
    log = managed.node.log
    with socket.create_server(("127.0.0.1", 0)) as taken:
        bind = f"127.0.0.1:{taken.getsockname()[1]}"
        _set(managed, "dashboard.listeners.http.bind", f'"{bind}"')
        named = f"dashboard.listeners.http.bind = {bind}: Address already in use"
        wait_until(lambda: named in log.read_text(), "the log names the setting")
        assert httpx.get(f"{managed.url}/status").status_code == 200
        _set(managed, "dashboard.listeners.http.bind", f'"{managed.url.removeprefix("http://")}"')
    https = '{ bind = "127.0.0.1:0", ssl_options.certfile = "/no/such.pem" }'
    _set(managed, "dashboard.listeners.https", https)
    named = "dashboard.listeners.https.ssl_options.certfile = '/no/such.pem': No such file or directory"
    wait_until(lambda: named in log.read_text(), "the log names the file")
    assert named in _told(managed)
    assert managed.url in _told(managed)
    _set(managed, "dashboard.listeners.https", "null")
    wait_until(lambda: not _told(managed), "the alarm has ended")


def test_it_is_served_at_all_addresses_with_the_port_that_it_has(managed: ManagedNode) -> None:
    port = httpx.URL(managed.url).port
    begin = managed.node.log.stat().st_size
    _set(managed, "dashboard.listeners.http.bind", f'"0.0.0.0:{port}"')
    managed.again(begin)
    assert managed.url == f"http://0.0.0.0:{port}"
    assert httpx.get(f"http://127.0.0.1:{port}/status").status_code == 200
    begin = managed.node.log.stat().st_size
    _set(managed, "dashboard.listeners.http.bind", '"127.0.0.1:0"')
    managed.again(begin)


def test_it_is_switched_off_and_on(managed: ManagedNode) -> None:
    pid = _management_pid(managed)
    _set(managed, "management.enable", "false")
    wait_until(lambda: not psutil.pid_exists(pid), "the process has ended")
    begin = managed.node.log.stat().st_size
    _set(managed, "management.enable", "true")
    managed.again(begin)
    assert httpx.get(f"{managed.url}/status").status_code == 200


def test_it_ends_with_its_node(managed: ManagedNode) -> None:
    pid = _management_pid(managed)
    managed.node.kill()
    wait_until(lambda: not psutil.pid_exists(pid), "the process has ended")
    managed.api.close()
    managed.start()
