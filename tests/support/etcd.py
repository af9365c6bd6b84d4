"""etcd to test against: members of one cluster on ports of the loopback, each in a directory of its own."""

import os
import signal
import ssl
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

from support.ports import held_port
from support.servers import Stoppable, program


class Etcd:
    """A cluster that runs; a context, in which all members run at first.

    Args:
        folder: Where the directories of the members go.
        count: How many members.
        more: Further options of each.
        tls: A file with certificate and key of the members, and the authority's; clients speak TLS then.
    """

    def __init__(
        self, folder: Path, count: int, more: Sequence[str] = (), tls: tuple[Path, Path] | None = None
    ) -> None:
        scheme = "http" if tls is None else "https"
        clients, peers = ([held_port(self) for _ in range(count)] for _ in range(2))
        self.endpoints = [f"{scheme}://127.0.0.1:{port}" for port in clients]
        self.cafile = None if tls is None else str(tls[1])
        initial = ",".join(f"m{number}=http://127.0.0.1:{port}" for number, port in enumerate(peers))
        secure = [] if tls is None else ["--cert-file", str(tls[0]), "--key-file", str(tls[0])]
        self.members = []
        for number, (endpoint, port) in enumerate(zip(self.endpoints, peers, strict=True)):
            command = [
                *(program("etcd"), "--name", f"m{number}", "--data-dir", str(folder / f"m{number}")),
                *("--listen-client-urls", endpoint, "--advertise-client-urls", endpoint),
                *("--listen-peer-urls", f"http://127.0.0.1:{port}"),
                *("--initial-advertise-peer-urls", f"http://127.0.0.1:{port}", "--initial-cluster", initial),
                *("--initial-cluster-token", folder.name, "--unsafe-no-fsync", *secure, *more),
            ]
            self.members.append(Stoppable(command, "ready to serve client requests", is_killed=True))

    def start(self, *members: int) -> None:
        """Start some members, or all, and wait until each is ready."""
        # No member is ready without a quorum, so they start at once.
        starts = [threading.Thread(target=self.members[one].start) for one in members or range(len(self.members))]
        for start in starts:
            start.start()
        for start in starts:
            start.join()

    def kill(self, member: int) -> None:
        """End a member at once."""
        self.members[member].stop()

    @contextmanager
    def paused(self, member: int) -> Iterator[None]:
        """A member that does nothing, and whose connections stand."""
        pid = self.members[member].pid
        os.kill(pid, signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(pid, signal.SIGCONT)

    def ask(self, path: str, request: dict[str, Any], token: str = "") -> dict[str, Any]:
        """The answer of the first member."""
        headers = {"Authorization": token} if token else {}
        verify = True if self.cafile is None else ssl.create_default_context(cafile=self.cafile)
        response = httpx.post(f"{self.endpoints[0]}/v3/{path}", json=request, headers=headers, verify=verify)
        response.raise_for_status()
        answer: dict[str, Any] = response.json()
        return answer

    def leader(self) -> int:
        """Which member leads."""
        status = [httpx.post(f"{one}/v3/maintenance/status", json={}).json() for one in self.endpoints]
        return [one["header"]["member_id"] for one in status].index(status[0]["leader"])

    def __enter__(self) -> "Etcd":
        self.start()
        return self

    def __exit__(self, *_error: object) -> None:
        for member in self.members:
            member.stop()
