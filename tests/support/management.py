"""Nodes with the HTTP API, as processes of their own or in this one, and a client of it."""

import re
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import httpx

from support.process import NodeProcess
from support.waiting import wait_until

KEY: Final = "first-key"
SECRET: Final = "first-secret"
_SERVED: Final = re.compile(rb"the HTTP API is served at (http://[^\s,]+)[\s,]")  # a line that is whole
_WAIT_S: Final = 100.0  # beyond which it does not come; for a machine that is slow


class Served:
    """A node that serves the HTTP API on a free port, with one API key; owned by the test.

    Args:
        directory: Where it keeps its files.
        settings: More HOCON, in the lowest layer of the configuration.

    Attributes:
        base: The lowest layer: what the API changes lies above it.
        url: Where the API is served.
        api: A client of the API, which shows the key.
    """

    def __init__(self, directory: Path, settings: str) -> None:
        keys = directory / "api_keys"
        keys.write_text(f"{KEY}:{SECRET}\n")
        keys.chmod(0o600)
        self.base = f'dashboard.listeners.http.bind = "127.0.0.1:0"\napi_key.bootstrap_file = "{keys}"\n{settings}\n'
        self.url = ""
        self.api: httpx.Client

    @property
    def port(self) -> int:
        """Where MQTT clients connect."""
        raise NotImplementedError

    @property
    def data_dir(self) -> Path:
        """Where the node stores."""
        raise NotImplementedError

    @property
    def log_text(self) -> str:
        """What has been logged so far."""
        raise NotImplementedError

    def client(self, auth: tuple[str, str] | None = None, **more: Any) -> httpx.Client:
        """A client of the API, which the caller closes."""
        return httpx.Client(base_url=f"{self.url}/api/v5", auth=auth, timeout=_WAIT_S, **more)


class ManagedNode(Served):
    """One as its own process, with its management process.

    Args:
        directory: Where it keeps its files.
        settings: More HOCON, in the lowest layer of the configuration.
        are_programs_copies: As `NodeProcess` has it.

    Attributes:
        node: The node.
    """

    def __init__(self, directory: Path, settings: str = "", *, are_programs_copies: bool = True) -> None:
        super().__init__(directory, settings)
        (directory / "base.hocon").write_text(self.base)
        without = ("HELIOGRAPH_MANAGEMENT__ENABLE",)
        self.node = NodeProcess(directory, without=without, reader=True, are_programs_copies=are_programs_copies)

    @property
    def port(self) -> int:
        """Where MQTT clients connect."""
        return self.node.port

    @property
    def data_dir(self) -> Path:
        """Where it stores."""
        return self.node.data_dir

    @property
    def log_text(self) -> str:
        """What it has logged so far."""
        return self.node.log.read_text()

    def start(self) -> Self:
        """Start the node, and wait until its API is served."""
        begin = self.node.log.stat().st_size if self.node.log.exists() else 0
        try:
            self.node.start()
            self.url = self._served(begin)
        except BaseException:
            self.node.end()
            raise
        self.api = self.client((KEY, SECRET))
        return self

    def again(self, begin: int) -> None:
        """Wait until the API is served again, at an address that may be another one.

        Args:
            begin: How long the log was before what has it served anew, in bytes.
        """
        self.url = self._served(begin)
        self.api.base_url = f"{self.url}/api/v5"

    def _served(self, begin: int) -> str:
        def found() -> list[bytes]:
            return _SERVED.findall(self.node.log.read_bytes()[begin:])

        wait_until(found, "the HTTP API is served", is_alive=self.node.is_alive)
        return found()[-1].decode()

    def __enter__(self) -> Self:
        try:
            return self.start()
        except BaseException:
            self.node.__exit__(None, None, None)
            raise

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.api.close()
        if not self.node.was_killed:
            assert self.node.is_alive(), self.log_text[-2000:]
            self.node.stop()
