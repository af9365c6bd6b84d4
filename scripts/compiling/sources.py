"""Which modules are compiled."""

import re
from pathlib import Path
from typing import Final

# Compiled packages: all their modules form one unit, so that calls between them are C calls.
COMPILED: Final = ("mqtt", "broker", "session", "channel", "retainer")

# Single modules of other packages: what handles every connection, every read or every WebSocket frame, what finds the
# rule that decides about an action, and what is done for a message in a trace.
ALSO_COMPILED: Final = (
    "access/acl/index.py",
    "access/acl/rules.py",
    "access/acl/topics.py",
    "access/authorization/chain.py",
    "access/authorization/entries.py",
    "transport/connections.py",
    "transport/direct.py",
    "transport/frames.py",
    "transport/listener.py",
    "transport/pending_connection.py",
    "transport/protocol_transport.py",
    "transport/sockets.py",
    "observe/histogram.py",
    "observe/ring.py",
    "tracing/spans/message_records.py",
    "tracing/spans/message_trace.py",
    "tracing/spans/messages.py",
    "tracing/spans/sampling.py",
    "tracing/spans/span.py",
    "tracing/spans/trace_context.py",
    "tracing/ways/recorder.py",
    "tracing/ways/scope.py",
    "tracing/ways/under_way.py",
    "tracing/ways/way.py",
)

# Modules of the load tool, which is a package of its own: what makes and reads packets.
BENCH_COMPILED: Final = ("clients.py", "latency.py", "packets.py", "publisher.py", "subscriber.py", "websocket.py")

# Modules of these packages that stay plain Python, each with its reason.
INTERPRETED: Final[dict[str, str]] = {}


def compiled_sources() -> list[str]:
    """Paths of the modules to compile, in a stable order."""
    packages = [Path("src/heliograph") / package for package in COMPILED]
    files = sorted(path for package in packages for path in package.glob("*.py"))
    files += [Path("src/heliograph") / module for module in ALSO_COMPILED]
    return [str(path) for path in files if path.name != "__init__.py" and str(path) not in INTERPRETED]


def version() -> str:
    """The version in the sources."""
    text = (Path(__file__).resolve().parents[2] / "src" / "heliograph" / "__init__.py").read_text()
    (found,) = re.findall(r'^__version__: Final = "(.+)"$', text, re.MULTILINE)
    return str(found)
