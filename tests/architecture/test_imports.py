"""Which package may import which, and what the protocol packages may not import at all."""

import ast
import subprocess
import sys
from pathlib import Path

import grimp
import pytest

from architecture.syntax import ROOT, SOURCES, nodes
from support.cases import cases

PURE_PACKAGES = ("mqtt", "broker", "session", "channel")

# Everything that a package without I/O, time and chance needs. Another module is a decision, not an accident.
ALLOWED = {"base64", "collections", "collections.abc", "dataclasses", "heapq", "types", "typing", "mypy_extensions"}
ALLOWED |= {"heliograph.observe.histogram", "heliograph.observe.metric"}  # arrays of counts, and what describes them
# Names that reach a clock, a socket, a loop or chance without an import statement.
FORBIDDEN_NAMES = {"__import__", "breakpoint", "eval", "exec", "input", "open", "print"}

MODULES = sorted(path for package in PURE_PACKAGES for path in (SOURCES / package).glob("**/*.py"))


def imported_by(path: Path) -> set[str]:
    found: set[str] = set()
    for node in nodes(path):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: imports here name the whole path"
            found.add(node.module or "")
    return found


@cases("path", MODULES, ids=lambda path: str(path.relative_to(SOURCES)))
def test_the_protocol_packages_know_no_loop_socket_clock_or_chance(path: Path) -> None:
    own = {f"heliograph.{package}" for package in PURE_PACKAGES}
    for name in imported_by(path) - ALLOWED:
        assert ".".join(name.split(".")[:2]) in own, f"{path.relative_to(ROOT)} imports {name}"
    names = {node.id for node in nodes(path) if isinstance(node, ast.Name)}
    assert not names & FORBIDDEN_NAMES


def test_there_are_modules_to_look_at() -> None:
    assert len(MODULES) > 25


def test_no_module_is_a_drawer_for_odds_and_ends() -> None:
    drawers = {"utils", "util", "helpers", "common", "misc", "base"}
    assert [path for path in SOURCES.glob("**/*") if path.stem in drawers] == []


@pytest.mark.slow
def test_the_contracts_of_import_linter_hold() -> None:
    program = Path(sys.executable).with_name("lint-imports")
    if not program.exists():
        pytest.skip("import-linter is not installed")
    done = subprocess.run([program, "--no-cache"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "0 broken" in done.stdout


def test_no_modules_import_each_other_in_a_circle() -> None:
    """Imports inside of functions and those for type checkers count too: a circle is one file that was cut badly."""
    graph = grimp.build_graph("heliograph", cache_dir=None)
    imports = {module: graph.find_modules_directly_imported_by(module) for module in graph.modules}
    # What imports nothing that is left, or is imported by nothing that is left, is in no circle.
    while ends := [module for module, found in imports.items() if not found & imports.keys()]:
        for module in ends:
            del imports[module]
    imported = set().union(*imports.values())
    while starts := [module for module in imports if module not in imported]:
        for module in starts:
            del imports[module]
        imported = set().union(*imports.values())
    assert imports == {}


@pytest.mark.slow
def test_a_broker_never_loads_spark() -> None:
    loaded = (
        "heliograph.cli.start, heliograph.node.asked, heliograph.rules.engine.running, heliograph.rules.engine.faults"
    )
    script = f"import sys, {loaded}, heliograph.message_policies.faults; print('pyspark' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


# What takes long to load and a node with default settings has no use for.
RARE = (
    "heliograph.rules.evaluator",
    "heliograph.node.asked",
    "heliograph.rpc.server",
    "websockets",
    "regex",
    "jq",
    "httpx",
)


@pytest.mark.slow
def test_a_start_with_default_settings_loads_nothing_that_it_does_not_use() -> None:
    script = f"""
import sys, heliograph.cli.start
from heliograph.config.settings import Config
from heliograph.node import Node
from heliograph.node.checked_config import language_faults
Node(Config())
assert list(language_faults(Config())) == []
print([name for name in {RARE} if name in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


# What brings memory and the management process has no use for, or only for what few configure.
UNUSED_BY_MANAGEMENT = ("click", "multiprocessing", "httpx", "grpc", "google.protobuf", "h11", "websockets", "lark")


@pytest.mark.slow
def test_the_management_process_loads_nothing_that_it_does_not_use() -> None:
    script = f"""
import runpy, sys
try:
    runpy.run_module("heliograph.management", run_name="__main__")
except SystemExit as end:
    print(end.code, [name for name in {UNUSED_BY_MANAGEMENT} if name in sys.modules])
"""
    # The end of its standard input is the end of its node.
    done = subprocess.run([sys.executable, "-c", script], input="", capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "0 []"
