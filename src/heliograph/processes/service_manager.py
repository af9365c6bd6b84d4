"""Tells the service manager how this process is, as systemd's `sd_notify` does; nothing where none has started it."""

from __future__ import annotations

import os
import socket
import time
from contextlib import suppress


class ServiceManager:
    """The service manager of this process; owned by its command."""

    def __init__(self) -> None:
        # Taken out of the environment: child processes are not to speak for this one.
        self._address = os.environ.pop("NOTIFY_SOCKET", "")

    def tell_ready(self, status: str) -> None:
        """It works, from its start or after a reload; the status is for people."""
        self._send(f"READY=1\nSTATUS={status}")

    def tell_reloading(self) -> None:
        """It reads its configuration again; `tell_ready` ends that."""
        self._send(f"RELOADING=1\nMONOTONIC_USEC={time.monotonic_ns() // 1000}")

    def tell_stopping(self) -> None:
        """It comes to its end."""
        self._send("STOPPING=1\nSTATUS=stopping")

    def _send(self, text: str) -> None:
        if not self._address:
            return
        address = f"\0{self._address[1:]}" if self._address.startswith("@") else self._address
        with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sender:
            sender.setblocking(False)
            sender.sendto(text.encode(), address)
