"""Which sockets listen: the kernel tells the same in both ways."""

import os
import socket
import struct
from collections.abc import Callable
from contextlib import ExitStack
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import pytest

from heliograph.storage.reader import listening_sockets as module
from heliograph.storage.reader.listening_sockets import ListeningSocket, asked_of_kernel, read_from_tables
from support.cases import cases

TABLES = (Path("/proc/net/tcp"), Path("/proc/net/tcp6"))


def from_tables() -> list[ListeningSocket]:
    return read_from_tables(TABLES)


@cases("find", [asked_of_kernel, from_tables])
def test_sockets_that_listen_are_found_and_others_are_not(find: Callable[[], list[ListeningSocket]]) -> None:
    with ExitStack() as stack:
        own: list[tuple[str, int]] = []
        for host in ("127.0.0.1", "0.0.0.0", "::1", "::", "::ffff:127.0.0.1"):
            if ":" in host and not socket.has_dualstack_ipv6():
                continue
            made = stack.enter_context(socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET))
            made.bind((host, 0))
            made.listen()
            own.append((host.removeprefix("::ffff:"), made.getsockname()[1]))
        connected = stack.enter_context(socket.create_connection(("127.0.0.1", own[0][1])))
        bound = stack.enter_context(socket.socket())
        bound.bind(("127.0.0.1", 0))
        found = set(find())
        assert {ListeningSocket(ip_address(host), port, os.getuid()) for host, port in own} <= found
        silent = {one.getsockname() for one in (connected, bound)}
        assert not {ListeningSocket(ip_address(host), port, os.getuid()) for host, port in silent} & found


def test_answers_of_other_programs_are_none(monkeypatch: pytest.MonkeyPatch) -> None:
    class Forged(socket.socket):
        """A socket that another program of root has sent to, for each question, that nothing more follows."""

        forged = 2

        def recvmsg(self, size: int) -> Any:  # type: ignore[override]  # it takes what is given here
            if not self.forged:
                return super().recvmsg(size)
            self.forged -= 1
            return struct.pack("=IHHIIi", 20, 3, 2, 0, 0, 0), [], 0, (os.getpid(), 0)  # NLMSG_DONE

    with socket.create_server(("127.0.0.1", 0)) as server:
        ours = ListeningSocket(ip_address("127.0.0.1"), server.getsockname()[1], os.getuid())
        monkeypatch.setattr(socket, "socket", Forged)
        assert ours in asked_of_kernel()


def test_a_table_is_read_where_the_kernel_does_not_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused() -> list[ListeningSocket]:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(module, "asked_of_kernel", refused)
    with socket.create_server(("127.0.0.1", 0)) as server:
        ours = ListeningSocket(ip_address("127.0.0.1"), server.getsockname()[1], os.getuid())
        assert ours in module.listening_sockets()
    line = "0: {}:1F90 00000000:0000 {} 00000000:00000000 00:00000000 00000000 {} 0 1\n"
    text = "  sl  local_address\n" + line.format("0100007F", "0A", 7) + line.format("0100007F", "01", 8)
    (tmp_path / "tcp").write_text(text)
    assert read_from_tables((tmp_path / "tcp", tmp_path / "tcp6")) == [
        ListeningSocket(ip_address("127.0.0.1"), 8080, 7)
    ]
