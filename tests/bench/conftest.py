"""A real broker for the load tool: mosquitto, where it is installed."""

from collections.abc import Iterator

import pytest
import trustme

from support.mosquitto import Listeners, free_port, mosquitto


@pytest.fixture(scope="session")
def mosquitto_port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """The port of a mosquitto on TCP."""
    port = free_port()
    with mosquitto(tmp_path_factory.mktemp("mosquitto"), f"listener {port} 127.0.0.1\n"):
        yield port


@pytest.fixture(scope="session")
def mosquitto_listeners(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Listeners]:
    """A mosquitto with a listener for each transport."""
    folder = tmp_path_factory.mktemp("mosquitto")
    authority = trustme.CA()
    cert = authority.issue_cert("127.0.0.1")
    authority.cert_pem.write_to_path(str(folder / "ca.pem"))
    cert.private_key_and_cert_chain_pem.write_to_path(str(folder / "cert.pem"))
    ports = {transport: free_port() for transport in ("tcp", "tls", "ws", "wss")}
    lines = []
    for transport, port in ports.items():
        lines.append(f"listener {port} 127.0.0.1")
        if transport in ("ws", "wss"):
            lines.append("protocol websockets")
        if transport in ("tls", "wss"):
            lines += [f"certfile {folder / 'cert.pem'}", f"keyfile {folder / 'cert.pem'}"]
    with mosquitto(folder, "\n".join(lines) + "\n"):
        yield Listeners(ports, folder / "ca.pem")
