"""Builds the compiled rooms as one mypyc unit where a C compiler is at hand; elsewhere the same files run as Python."""

import os
import shutil
import sysconfig
from pathlib import Path

from setuptools import setup

# Compiled rooms; the whole folder is one unit with the others, so calls between them are C calls.
COMPILED = ("mqtt", "broker", "session", "channel", "retainer")

# Single modules of other rooms: what handles every frame of a WebSocket, and the load tool's packets and clients.
ALSO_COMPILED = (
    "transport/frames.py",
    "bench/clients.py",
    "bench/latency.py",
    "bench/packets.py",
    "bench/publisher.py",
    "bench/subscriber.py",
    "bench/websocket.py",
)

# Modules of these rooms that stay plain Python, each with its reason.
INTERPRETED: dict[str, str] = {}


def compiled_sources() -> list[str]:
    """Paths of the modules to compile, in a stable order."""
    rooms = [Path("src/heliograph") / room for room in COMPILED]
    files = sorted(path for room in rooms for path in room.glob("*.py"))
    files += [Path("src/heliograph") / module for module in ALSO_COMPILED]
    return [str(path) for path in files if path.name != "__init__.py" and str(path) not in INTERPRETED]


def has_c_compiler() -> bool:
    """Whether the compiler that this Python was configured with (or $CC) can be started, and Python's headers exist."""
    command = os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc"
    headers = Path(sysconfig.get_path("include"), "Python.h")
    return shutil.which(str(command).split()[0]) is not None and headers.is_file()


ext_modules = []
if os.environ.get("HELIOGRAPH_PURE") != "1" and has_c_compiler() and compiled_sources():
    from mypyc.build import mypycify

    ext_modules = mypycify(
        ["--strict", "--config-file=pyproject.toml", *compiled_sources()],
        opt_level=os.environ.get("HELIOGRAPH_OPT_LEVEL", "3"),
        group_name="heliograph",
    )

setup(ext_modules=ext_modules)
