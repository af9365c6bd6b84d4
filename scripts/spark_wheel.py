"""Builds the wheel `heliograph-spark`: the format `heliograph` for PySpark and the MQTT client, nothing of a broker.

Which modules are in it follows from imports: those of `ROOTS`, and what they import, at any depth and at any time. So
the list cannot rot, and a module of another package than `ROOMS` ends the build. What is imported for type checkers
only is left out. Requirements are those of `pyproject.toml` whose packages these modules import.

The modules stand in a directory of their own, `heliograph_spark`, which a `.pth` file appends to the path of Python.
The wheel shares no file with `heliograph`: where both are installed, that one is found first, and either can be
removed.
"""

import ast
import base64
import hashlib
import re
import sys
import tomllib
import zipfile
from collections.abc import Iterator, Set
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

import grimp

CHECKOUT: Final = Path(__file__).resolve().parents[1]
SOURCES: Final = CHECKOUT / "src"
PATH: Final = "heliograph_spark"
ROOTS: Final = ("pyspark_heliograph", "heliograph.client", "heliograph.pipeline.datasource")
# What of `heliograph` may be in the wheel; of most of them only some modules are.
ROOMS: Final = frozenset(
    {
        "client",
        "config",
        "hocon",
        "mqtt",
        "outbound",
        "pipeline",
        "processes",
        "rules",
        "settings",
        "storage",
        "_pure",
        "_spark_worker",
    }
)
# Packages of others whose names are not those of imports.
IMPORTED_AS: Final = {"google": "protobuf", "grpc_tools": "grpcio-tools"}
# A cluster brings a pyspark of its own, or its client. `make spark-versions` tests the versions of this range.
LEFT_TO_USERS: Final = {"pyspark": "pyspark>=4.0,<4.4"}
_OF_PYSPARK: Final = {"py4j"}
# What modules read from beside them.
_READ: Final = (".lark", ".proto", ".java")
_DATE: Final = (1980, 1, 1, 0, 0, 0)  # of every file: the same sources make the same wheel


class SparkWheelError(Exception):
    """The wheel would have what it must not have, or lack what it needs."""


@dataclass(frozen=True, slots=True)
class Closure:
    """What the wheel holds.

    Attributes:
        modules: Modules of ours, with all packages that they are in.
        packages: Packages of others that they import, by the names of imports.
    """

    modules: Set[str]
    packages: Set[str]


@cache
def closure() -> Closure:
    """Everything that the format and the client import.

    A module that is named by a text in a module, as one that is imported at the first use of a name, is imported by it,
    unless that module is only the package around one that is needed.

    Raises:
        SparkWheelError: A module of a package that does not belong here is among it.
    """
    graph = grimp.build_graph(
        "heliograph",
        "pyspark_heliograph",
        include_external_packages=True,
        exclude_type_checking_imports=True,
        cache_dir=None,
    )
    roots = [name for name in graph.modules if any(name == root or name.startswith(f"{root}.") for root in ROOTS)]
    imported_by: dict[str, str] = dict.fromkeys(roots, "")
    found: set[str] = set()
    waiting = list(roots)
    while waiting:
        module = waiting.pop()
        if module in found:
            continue
        found.add(module)
        if not _is_ours(module):
            continue
        imports = graph.find_modules_directly_imported_by(module)
        if module in imported_by:
            imports = imports | {name for name in _texts(module) & graph.modules if name.startswith("heliograph.")}
        for name in imports - imported_by.keys():
            imported_by[name] = module
            found.discard(name)  # it was only the package around another
        waiting += [*imports, *filter(None, [module.rpartition(".")[0]])]
    modules = {name for name in found if _is_ours(name)}
    for name in sorted(modules):
        if (room := _room(name)) is not None and room not in ROOMS:
            raise SparkWheelError(f"heliograph-spark would hold {name}, which {imported_by[name]} imports")
    return Closure(modules, found - modules - sys.stdlib_module_names)


def _is_ours(name: str) -> bool:
    return name.partition(".")[0] in ("heliograph", "pyspark_heliograph")


def _room(name: str) -> str | None:
    """The package of `heliograph` that a module is in."""
    parts = name.split(".")
    return parts[1] if parts[0] == "heliograph" and len(parts) > 1 else None


def _file(module: str) -> Path:
    path = SOURCES.joinpath(*module.split("."))
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")


def _texts(module: str) -> set[str]:
    """What texts in a module say; of `module:name` the module."""
    tree = ast.parse(_file(module).read_text(encoding="utf-8"))
    nodes = (node.value for node in ast.walk(tree) if isinstance(node, ast.Constant))
    return {value.partition(":")[0] for value in nodes if isinstance(value, str)}


def files() -> dict[str, Path]:
    """Every file of ours in the wheel, by its name there: modules, what they read from beside them, and `py.typed`."""
    modules = sorted(closure().modules)
    found = {_file(module) for module in modules}
    for path in [_file(module) for module in modules]:
        named = _texts(".".join(path.with_suffix("").relative_to(SOURCES).parts))
        found |= {each for each in path.parent.glob("*.*") if each.suffix in _READ and each.name in named}
    found |= {SOURCES / package / "py.typed" for package in ("heliograph", "pyspark_heliograph")}
    return {f"{PATH}/{path.relative_to(SOURCES).as_posix()}": path for path in sorted(found)}


def requirements() -> list[str]:
    """What the wheel requires: a line of `pyproject.toml` for each package that is imported.

    Raises:
        SparkWheelError: A package has no such line.
    """
    project = tomllib.loads((CHECKOUT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    lines = [*project["optional-dependencies"]["pipeline"], *project["dependencies"]]
    known = {_normal(re.split(r"[^\w.-]", line)[0]): line for line in lines}
    found = []
    for package in sorted(closure().packages - set(LEFT_TO_USERS) - _OF_PYSPARK):
        name = _normal(IMPORTED_AS.get(package, package))
        if name not in known:
            raise SparkWheelError(f"heliograph-spark would import {package}, which pyproject.toml does not require")
        found.append(known[name])
    return found + [f"{line}; extra == {name!r}".replace("'", '"') for name, line in LEFT_TO_USERS.items()]


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def build(folder: Path) -> Path:
    """Write the wheel into a directory; its path."""
    from heliograph import __version__

    info = f"heliograph_spark-{__version__}.dist-info"
    contents = {name: path.read_bytes() for name, path in files().items()}
    contents["heliograph_spark.pth"] = f"{PATH}\n".encode()
    contents[f"{info}/METADATA"] = "\n".join(_metadata(__version__)).encode()
    contents[f"{info}/WHEEL"] = b"Wheel-Version: 1.0\nGenerator: heliograph\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    contents[f"{info}/licenses/LICENSE"] = (CHECKOUT / "LICENSE").read_bytes()
    lines = [f"{name},{_digest(content)},{len(content)}\n" for name, content in contents.items()]
    contents[f"{info}/RECORD"] = "".join([*lines, f"{info}/RECORD,,\n"]).encode()
    folder.mkdir(parents=True, exist_ok=True)
    wheel = folder / f"heliograph_spark-{__version__}-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in contents.items():
            entry = zipfile.ZipInfo(name, _DATE)
            entry.external_attr = 0o644 << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, content)
    return wheel


def _metadata(version: str) -> Iterator[str]:
    yield from ("Metadata-Version: 2.4", "Name: heliograph-spark", f"Version: {version}")
    yield "Summary: Stored messages of a Heliograph broker as tables and streams of Apache Spark, and its MQTT client"
    yield from ("License-Expression: Apache-2.0", "License-File: LICENSE", "Requires-Python: >=3.11")
    yield from (f"Provides-Extra: {name}" for name in LEFT_TO_USERS)
    yield from (f"Requires-Dist: {line}" for line in requirements())
    yield from ("Description-Content-Type: text/markdown", "")
    yield 'The format `heliograph` for PySpark (`spark.read.format("heliograph")`) without the broker, which is the'
    yield "package `heliograph`. Spark is not required: install `pyspark`, or take the one of your cluster."
    yield ""


def _digest(content: bytes) -> str:
    return "sha256=" + base64.urlsafe_b64encode(hashlib.sha256(content).digest()).decode().rstrip("=")


if __name__ == "__main__":
    print(build(Path(*sys.argv[1:2] or ["dist"])))
