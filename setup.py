"""Builds the compiled packages as one mypyc unit where a C compiler is at hand; elsewhere the same files run as Python.

What is compiled depends on these sources and on the compiler alone. mypyc sees none of the packages that happen to be
installed (their types would change the C code, or be missing), no settings of the type checker, and no earlier build.
"""

import os
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_ext import build_ext

# Compiled packages: all their modules form one unit, so that calls between them are C calls.
COMPILED = ("mqtt", "broker", "session", "channel", "retainer")

# Single modules of other packages: what handles every connection, every read or every WebSocket frame, what finds the
# rule that decides about an action, what is done for a message in a trace, and the load tool's packets and clients.
ALSO_COMPILED = (
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
    "bench/clients.py",
    "bench/latency.py",
    "bench/packets.py",
    "bench/publisher.py",
    "bench/subscriber.py",
    "bench/websocket.py",
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

# Nothing outside the unit calls its functions by name: so calls within it are direct, and short ones are inlined. Each
# begins at a cache line: otherwise its speed depends on what stands before it (a message took 13 % more time once, with
# the same instructions).
_COMPILER_ARGS = ["-fvisibility=hidden", "-falign-functions=64"]

# Modules of these packages that stay plain Python, each with its reason.
INTERPRETED: dict[str, str] = {}


def compiled_sources() -> list[str]:
    """Paths of the modules to compile, in a stable order."""
    packages = [Path("src/heliograph") / package for package in COMPILED]
    files = sorted(path for package in packages for path in package.glob("*.py"))
    files += [Path("src/heliograph") / module for module in ALSO_COMPILED]
    return [str(path) for path in files if path.name != "__init__.py" and str(path) not in INTERPRETED]


def compiler_fault() -> str | None:
    """Why no extension can be compiled here; None if a small one can."""
    command = shlex.split(os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc")
    if shutil.which(command[0]) is None:
        return f"there is no C compiler ({command[0]})"
    if not Path(sysconfig.get_path("include"), "Python.h").is_file():
        return "Python's headers are not installed (on Debian: apt install python3-dev)"
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "probe.c")
        source.write_text("#include <Python.h>\n")
        probe = [*command, "-c", str(source), "-I", sysconfig.get_path("include"), "-o", str(source.with_suffix(".o"))]
        answer = subprocess.run(probe, capture_output=True, check=False)
    return None if answer.returncode == 0 else f"the C compiler {shlex.join(command)} fails"


def compiled_extensions() -> list[Extension]:
    """The extension modules, of which mypyc writes the C code now."""
    from mypyc.build import mypycify

    extensions = mypycify(
        [
            # `make lint` checks the types strictly. Here mypyc must know what it can rely on, from these sources alone.
            "--config-file=",
            "--no-site-packages",
            "--ignore-missing-imports",
            "--warn-unreachable",
            "--cache-dir=build/types",
            *compiled_sources(),
        ],
        opt_level=os.environ.get("HELIOGRAPH_OPT_LEVEL", "3"),
        group_name="heliograph",
    )
    for extension in extensions:  # several of them share one list
        extension.extra_compile_args = [*extension.extra_compile_args, *_COMPILER_ARGS]
    return extensions


class BuildExtensions(build_ext):
    """Compiles the packages, or says in one line why they stay Python."""

    def run(self) -> None:
        """Build what can be built; a fault of the compiler is no reason to go without a broker."""
        fault = compiler_fault()
        if fault is None:
            try:
                self._build(compiled_extensions())
            except (Exception, SystemExit) as error:  # noqa: BLE001 - mypyc leaves by SystemExit
                fault = f"compiling failed ({type(error).__name__}: {error})"
        if fault is not None:
            for left in Path("src").rglob("*.so") if self.inplace else ():
                left.unlink()  # of an earlier build
            self._build([])
            print(f"heliograph: {fault}; installing it uncompiled, several times slower", file=sys.stderr)  # noqa: T201

    def get_source_files(self) -> list[str]:
        """No files for a source distribution: the C code is written anew in each build."""
        return []

    def _build(self, extensions: list[Extension]) -> None:
        self.distribution.ext_modules = extensions
        self.swig_opts = None  # of all options the one that cannot be finalized twice
        self.finalize_options()
        super().run()


class Wheel(bdist_wheel):
    """A wheel that says by its tag whether it has compiled modules, and has nothing of an earlier build."""

    def run(self) -> None:
        """Compile first, since only then it is known which kind of wheel it is."""
        build = self.get_finalized_command("build")
        for folder in {build.build_lib, build.build_platlib, build.build_purelib}:
            shutil.rmtree(folder, ignore_errors=True)
        if self.distribution.has_ext_modules():
            self.run_command("build_ext")
            self.root_is_pure = not self.distribution.has_ext_modules()
        super().run()


is_pure = os.environ.get("HELIOGRAPH_PURE") == "1"
setup(
    # Stands for those that `BuildExtensions` makes: only a command that builds waits for mypyc.
    ext_modules=[] if is_pure else [Extension("heliograph__mypyc", [])],
    cmdclass={"build_ext": BuildExtensions, "bdist_wheel": Wheel},
)
