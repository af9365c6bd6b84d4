"""`heliograph service`: has systemd run a node, with a unit that is written here, and removes it again."""

from __future__ import annotations

import argparse
import os
import pwd
import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from heliograph.cli.usage import Actions, UsageError, example_of, fail

_SYSTEM_UNITS: Final = Path("/etc/systemd/system")
_USER: Final = "heliograph"
_SYSTEM_DATA: Final = Path("/var/lib/heliograph")


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


def add_parser(subparsers: Actions) -> None:
    """Add `service` and its actions to the command line."""
    parser = subparsers.add_parser(
        "service",
        help="run a node by systemd",
        description="Make systemd start a node with the machine, and start it again when it fails.",
        epilog=example_of("heliograph service install --print"),
    )
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    install = actions.add_parser(
        "install",
        help="write the unit",
        description="Write the systemd unit of a node. It tells systemd when it is ready, when it reads its "
        "configuration again (systemctl reload) and when it stops; it may write to its data directory only. Nothing is "
        "started: the commands for that are printed.",
        epilog=example_of(
            "heliograph service install --config /etc/heliograph.conf",
            "heliograph service install --user --data-dir ~/mqtt",
            "heliograph service install --print > heliograph.service",
        ),
    )
    _add_scope(install)
    install.add_argument("--config", metavar="FILE", type=Path, help="its configuration (default: none)")
    install.add_argument(
        "--data-dir",
        metavar="DIR",
        type=Path,
        help=f"where it keeps data (default: node.data_dir of FILE, or {_SYSTEM_DATA}, with --user "
        "~/.local/share/heliograph)",
    )
    install.add_argument("--run-as", metavar="USER", help=f"user of a system service (default: {_USER})")
    install.add_argument("--print", action="store_true", help="print the unit instead of writing it")
    uninstall = actions.add_parser(
        "uninstall",
        help="remove the unit",
        description="Remove the unit that install has written. Data and configuration stay.",
        epilog=example_of("heliograph service uninstall --user"),
    )
    _add_scope(uninstall)


def _add_scope(parser: argparse.ArgumentParser) -> None:
    scope = parser.add_mutually_exclusive_group()
    scope.add_argument("--system", action="store_true", help="a service of the machine (default)")
    scope.add_argument("--user", action="store_true", help="a service of this user")
    parser.add_argument("--name", default="heliograph", help="name of the service (default: heliograph)")


def run(args: argparse.Namespace) -> int:
    """Install or uninstall; 1 if a file cannot be written, 2 if the options make no sense."""
    try:
        return _install(args) if args.action == "install" else _uninstall(args)
    except UsageError as error:
        return fail("service", str(error), 2)
    except BrokenPipeError:
        raise
    except OSError as error:
        hint = "; be root, or give --user" if isinstance(error, PermissionError) and not args.user else ""
        return fail("service", f"{error.filename}: {error.strerror}{hint}")


def _install(args: argparse.Namespace) -> int:
    unit = _unit(args)
    if args.print:
        print(unit.text(), end="")
        return 0
    if unit.run_as is not None:
        owner = _account(unit.run_as, unit.data_dir)
        unit.data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        if os.geteuid() == 0:
            os.chown(unit.data_dir, owner.pw_uid, owner.pw_gid)
    else:
        unit.data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    path = _path(args)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(unit.text(), encoding="utf-8")
    manager = "systemctl --user" if args.user else "systemctl"
    print(f"{path} is written. Now:")
    print(f"  {manager} daemon-reload")
    print(f"  {manager} enable --now {path.stem}")
    if args.user:
        print("  loginctl enable-linger          # so that it runs while you are not logged in")
    return 0


def _uninstall(args: argparse.Namespace) -> int:
    path = _path(args)
    if not path.exists():
        raise UsageError(f"{path} is not there: nothing is installed under this name")
    path.unlink()
    manager = "systemctl --user" if args.user else "systemctl"
    print(f"{path} is removed. Now:\n  {manager} stop {path.stem}\n  {manager} daemon-reload")
    return 0


@dataclass(frozen=True)
class ServiceUnit:
    """What a unit runs.

    Attributes:
        data_dir: The data directory, an absolute path.
        is_configured: Whether the configuration says so.
        config: The configuration file, an absolute path; None for the defaults.
        run_as: The user of a system service; None for a service of the user who installs it.
    """

    data_dir: Path
    is_configured: bool
    config: Path | None
    run_as: str | None

    def text(self) -> str:
        config = [] if self.config is None else ["--config", str(self.config)]
        data_dir = [] if self.is_configured else ["--data-dir", str(self.data_dir)]
        command = [*program(), "start", *config, *data_dir]
        is_system = self.run_as is not None
        return (
            "[Unit]\n"
            "Description=Heliograph, an MQTT platform\n"
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


def _unit(args: argparse.Namespace) -> ServiceUnit:
    if args.user and args.run_as is not None:
        raise UsageError("--run-as has no meaning with --user: that service runs as you")
    config = None if args.config is None else args.config.expanduser().absolute()
    if config is not None and not config.is_file():
        raise UsageError(f"the configuration file {config} is not there")
    configured = None if config is None or args.data_dir is not None else _configured_data_dir(config)
    default = Path("~/.local/share/heliograph") if args.user else _SYSTEM_DATA
    data_dir = configured or (args.data_dir or default).expanduser().absolute()
    return ServiceUnit(data_dir, configured is not None, config, None if args.user else args.run_as or _USER)


def _configured_data_dir(file: Path) -> Path | None:
    """The `node.data_dir` of a configuration; None if it leaves that to its default."""
    from heliograph.config.loading import load_config
    from heliograph.config.settings import Config
    from heliograph.settings.errors import ConfigError

    try:
        text = load_config(file, {}).node.data_dir
    except ConfigError as error:
        raise UsageError(str(error)) from None
    if text == Config().node.data_dir:
        return None
    if not Path(text).is_absolute():
        raise UsageError(
            f"node.data_dir of {file} is {text!r}, which is not the same directory for a service: an absolute path is "
            "expected there, or --data-dir DIR"
        )
    return Path(text)


def _account(name: str, data_dir: Path) -> pwd.struct_passwd:
    try:
        return pwd.getpwnam(name)
    except KeyError:
        raise UsageError(
            f"there is no user {name}: make one with\n"
            f"  useradd --system --home-dir {data_dir} --shell /usr/sbin/nologin {name}\nor name another with --run-as"
        ) from None


def _path(args: argparse.Namespace) -> Path:
    if not args.name.replace("-", "").replace("_", "").isalnum():
        raise UsageError(f'"{args.name}" is no name for a service: letters, digits, - and _ are expected')
    home = Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config")
    return (home / "systemd" / "user" if args.user else _SYSTEM_UNITS) / f"{args.name}.service"


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
