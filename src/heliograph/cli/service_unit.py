"""The systemd unit of a node, as text."""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Final

# A node takes connections with what is left of this; the system's own limit holds where it is lower.
_OPEN_FILES: Final = 1_048_576
_PLAIN: Final = re.compile(r"[A-Za-z0-9_@/.,:=+%$-]+")

_HARDENED: Final = """\
NoNewPrivileges=yes
LockPersonality=yes
RestrictRealtime=yes
RestrictSUIDSGID=yes
SystemCallArchitectures=native
"""

_HARDENED_SYSTEM: Final = """\
AmbientCapabilities=CAP_NET_BIND_SERVICE
CapabilityBoundingSet=CAP_NET_BIND_SERVICE
PrivateDevices=yes
PrivateTmp=yes
ProtectClock=yes
ProtectControlGroups=yes
ProtectHome=read-only
ProtectHostname=yes
ProtectKernelLogs=yes
ProtectKernelModules=yes
ProtectKernelTunables=yes
ProtectSystem=strict
RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6 AF_NETLINK
RestrictNamespaces=yes
"""


@dataclass(frozen=True)
class ServiceUnit:
    """What a unit runs.

    Attributes:
        data_dir: The data directory, an absolute path.
        config: The configuration file, an absolute path; None for the defaults.
        run_as: The user of a system service; None for a service of the user who installs it.
    """

    data_dir: Path
    config: Path | None
    run_as: str | None

    def text(self) -> str:
        """The unit file."""
        config = [] if self.config is None else ["--config", str(self.config)]
        command = [*program(), "start", *config, "--data-dir", str(self.data_dir)]
        is_system = self.run_as is not None
        return (
            "[Unit]\n"
            "Description=Heliograph, an MQTT platform\n"
            "Documentation=man:heliograph(1)\n"
            + ("Wants=network-online.target\nAfter=network-online.target\n" if is_system else "")
            + "\n[Service]\n"
            "Type=notify\n"
            f"ExecStart={' '.join(map(_word, command))}\n"
            "ExecReload=/bin/kill -HUP $MAINPID\n"
            + (f"User={self.run_as}\n" if is_system else "")
            + f"LimitNOFILE={_OPEN_FILES}\n"
            "UMask=0077\n"
            "KillMode=mixed\n"
            "OOMPolicy=continue\n"
            "Restart=on-failure\n"
            "RestartSec=2s\n"
            "TimeoutStartSec=15min\n"
            "TimeoutStopSec=2min\n"
            + _HARDENED
            + (f"{_HARDENED_SYSTEM}ReadWritePaths={_word(str(self.data_dir))}\n" if is_system else "")
            + "\n[Install]\n"
            f"WantedBy={'multi-user' if is_system else 'default'}.target\n"
        )


def program() -> list[str]:
    """The command that runs this installation of Heliograph."""
    script = Path(sys.executable).parent / "heliograph"
    return [str(script)] if script.exists() else [sys.executable, "-m", "heliograph.cli.main"]


def _word(text: str) -> str:
    """A word of a command as systemd reads it."""
    text = text.replace("%", "%%").replace("$", "$$")
    if _PLAIN.fullmatch(text):
        return text
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'
