"""RabbitMQ to test against, on free ports, with TLS beside: Debian's package, without plugins."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pika

from support.certificates import Authority
from support.mosquitto import free_port
from support.servers import Stoppable, program, running

_FOLDERS = (Path("/usr/lib/rabbitmq/bin"),)
_USER = "guest"
_PASSWORD = "guest"


@dataclass(frozen=True)
class Rabbitmq:
    """A running broker, which `server` stops and starts again; it keeps durable queues."""

    port: int
    tls_port: int
    cafile: Path
    server: Stoppable

    @contextmanager
    def channel(self) -> Iterator[Any]:
        """A channel to declare and read with."""
        credentials = pika.PlainCredentials(_USER, _PASSWORD)
        connection = pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", self.port, credentials=credentials))
        try:
            yield connection.channel()
        finally:
            connection.close()

    def section(self, more: str) -> str:
        """The section of a sink that publishes to it."""
        login = f'username = {_USER}, password = "{_PASSWORD}"'
        return f'{{ type = rabbitmq, server = "127.0.0.1:{self.port}", {login}, {more} }}'


@contextmanager
def rabbitmq(folder: Path) -> Iterator[Rabbitmq]:
    """A broker until the block ends."""
    authority, port, tls_port, names_port = Authority(folder), free_port(), free_port(), free_port()
    certificate = authority.server()
    settings = folder / "rabbitmq.conf"
    settings.write_text(
        f"listeners.tcp.1 = 127.0.0.1:{port}\nlisteners.ssl.1 = 127.0.0.1:{tls_port}\n"
        f"ssl_options.cacertfile = {authority.cafile}\nssl_options.certfile = {certificate}\n"
        f"ssl_options.keyfile = {certificate}\nssl_options.verify = verify_none\n"
        "log.console = true\nlog.file = false\n",
        encoding="utf-8",
    )
    plugins = folder / "plugins"
    plugins.write_text("[].\n", encoding="utf-8")
    environment = {
        "HOME": str(folder),  # of the cookie
        "ERL_EPMD_PORT": str(names_port),
        "ERL_EPMD_ADDRESS": "127.0.0.1",
        "RABBITMQ_NODENAME": f"test{port}@localhost",
        "RABBITMQ_DIST_PORT": str(free_port()),
        "RABBITMQ_MNESIA_BASE": str(folder / "mnesia"),
        "RABBITMQ_LOG_BASE": str(folder / "log"),
        "RABBITMQ_CONFIG_FILE": str(settings),
        "RABBITMQ_ENABLED_PLUGINS_FILE": str(plugins),
        "RABBITMQ_CONF_ENV_FILE": os.devnull,
        "RUNNING_UNDER_SYSTEMD": "true",  # so that the process that we start is the broker itself
    }
    start = [program("env"), *(f"{name}={value}" for name, value in environment.items())]
    command = [*start, program("rabbitmq-server", *_FOLDERS)]
    # Its own server of names: one that it starts would outlive it.
    names = [program("epmd"), "-port", str(names_port), "-address", "127.0.0.1", "-d"]
    with running(names, "epmd running"), Stoppable(command, "Server startup complete") as server:
        yield Rabbitmq(port, tls_port, authority.cafile, server)
